"""Asks a driver library through the real binding, and prints what came of it as JSON.

``gpus``: static, readings, gaps, the CPU seconds of each reading, and the driver's own count of calls;
``sensors``: the same by the clock, with the slowest tick; ``machine``: names and gaps; ``env``: the line that
`bdoc env` shows.
"""

import json
import os
import sys
import time
from typing import Any

from bottleneck_doctor.model.run import Gap
from bottleneck_doctor.sense import capabilities, sensors
from bottleneck_doctor.sense.gpus import Gpus, list_gpu_names
from bottleneck_doctor.sense.nvml import load_nvml


def gpus(readings: int = 1, pause_s: float = 0.0, own: bool = True) -> dict[str, Any]:
    """Reads some times; ``own``: this process is the job."""
    binding = load_nvml()
    if isinstance(binding, Gap):
        return {"static": {}, "readings": [], "gaps": words([binding])}
    watched = Gpus(binding)
    static, found, spent_s = watched.static(), [], []
    for _ in range(readings):
        began_s = time.process_time()
        found.append(watched.read(frozenset({1000} if own else ())))
        spent_s.append(time.process_time() - began_s)
        time.sleep(pause_s)
    watched.close()
    with open(os.environ["NVML_SCENARIO"] + ".end") as end:
        calls = {name: int(count) for name, count in (line.rsplit(" ", 1) for line in end)}
    return {
        "static": static, "readings": found, "gaps": words(watched.gaps()), "calls": calls, "cpu_s": spent_s,
    }  # fmt: skip


def by_clock(seconds: float = 1.0) -> dict[str, Any]:
    """Ticks as the supervisor does."""
    watched = sensors.Sensors(os.getpid(), list)
    end_s, slowest_s = time.monotonic() + seconds, 0.0
    while time.monotonic() < end_s:
        began_s = time.monotonic()
        pause_s = watched.tick(time.monotonic_ns())
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        time.sleep(min(pause_s, 0.05))
    began_s = time.monotonic()
    watched.close()
    of = {name: [dict(one.values) for one in watched.samples if one.sensor == name] for name in KINDS}
    return {
        "static": of["gpu_static"], "readings": of["gpu"], "gaps": words(watched.gaps()),
        "slowest_tick_s": slowest_s, "closing_s": time.monotonic() - began_s,
    }  # fmt: skip


KINDS = ("gpu_static", "gpu")


def machine() -> dict[str, Any]:
    """What stands in the profile."""
    began_s = time.monotonic()
    names, gaps = list_gpu_names()
    return {"names": names, "gaps": words(gaps), "took_s": time.monotonic() - began_s}


def env() -> dict[str, Any]:
    """The GPUs' line of what can be measured here."""
    return vars(next(one for one in capabilities.list_capabilities() if one.name == "gpu counters"))


def words(gaps: list[Gap]) -> list[list[str]]:
    """Gaps of GPUs, as what, why and do."""
    return [[gap.what, gap.why, gap.do] for gap in gaps if "gpu" in gap.what]


if __name__ == "__main__":
    asked = {"gpus": gpus, "sensors": by_clock, "machine": machine, "env": env}[sys.argv[1]]
    print(json.dumps(asked(**json.loads(sys.argv[2]))))
