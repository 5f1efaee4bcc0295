"""What watching costs: a training of equal steps, plain and under bdoc in turn."""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.lab.run import BDOC, Failed, ours_first, report_on

STEPS = Path(__file__).with_name("steps.py")


@dataclass(frozen=True)
class Cost:
    """One run: by the script's own clocks, and by the kernel's books on everything that was started."""

    step_s: float
    mean_step_s: float
    first_step_s: float
    total_s: float
    memory_bytes: float
    other_cpu_s: float
    supervisor_share: float | None = None
    agent_us: float | None = None


@dataclass(frozen=True)
class Pair:
    """A plain run and the watched run right after it."""

    plain: Cost
    watched: Cost


def pair(step_ms: float, seconds: float, options: list[str]) -> Pair:
    """One plain and one watched run of the same training."""
    with tempfile.TemporaryDirectory(prefix="bdoc-bench-") as name:
        out, profile = Path(name) / "cost.json", Path(name) / "profile.json"
        steps = str(max(100, round(seconds / step_ms * 1000)))
        script = [str(STEPS), "--step-ms", str(step_ms), "--steps", steps, "--out", str(out)]
        plain = accounted([sys.executable, *script], out)
        watched = accounted([*BDOC, "run", "--quiet", *options, "-o", str(profile), *script], out)
        overhead = report_on(profile)["quality"]["overhead"]
    agent_s = overhead["agent_s_per_step"]
    own = {
        "supervisor_share": overhead["supervisor_cpu_share"],
        "agent_us": None if agent_s is None else agent_s * 1e6,
    }
    return Pair(plain, replace(watched, **own))


def accounted(command: Sequence[str], out: Path) -> Cost:
    """Run it; what it used beside the training comes from the kernel's books."""
    began_s = time.monotonic()
    environ = {**os.environ, "PYTHONPATH": ours_first()}
    pid = os.posix_spawn(command[0], [*command], environ)
    _, status, used = os.wait4(pid, 0)
    total_s = time.monotonic() - began_s
    if status != 0:
        raise Failed(f"the run ended with status {os.waitstatus_to_exitcode(status)}: {command}")
    cost = json.loads(out.read_text())
    out.unlink()
    return Cost(
        step_s=cost["step_s"],
        mean_step_s=cost["mean_step_s"],
        first_step_s=cost["first_step_at_s"] - began_s,
        total_s=total_s,
        memory_bytes=cost["memory_bytes"],
        other_cpu_s=used.ru_utime + used.ru_stime - cost["cpu_s"],
    )


def spread(values: Sequence[float | None]) -> str:
    """The median, and between what it lies."""
    known = [value for value in values if value is not None]
    if not known:
        return "not measured"
    return f"{statistics.median(known):.3f} ({min(known):.3f} – {max(known):.3f})"
