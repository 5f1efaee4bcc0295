"""Synthetic runs on an accelerator: what its clock, a profiler and NVML would say. Simulated, all of it."""

from dataclasses import fields, replace
from typing import Any

from bottleneck_doctor.model.device import DeviceFacts, DeviceTable, DeviceWindow
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of

EVERY = 10  # steps that a row of the device's table covers


def device_run(
    facts: DeviceFacts | None = None,
    nvml: dict[str, float] | None = None,
    cpu: float = 1e-3,
    workers: int = 2,
    window: bool = True,
    caught_up: float | None = None,
    inside: float = 0.0,
    kind: str = "cuda",
    storage: float = 0.0,
    cores: float = 2.0,
    **beat: float,
) -> Profile:
    """A run whose device keeps this beat, in seconds per step; ``nvml`` are constant readings of cuda:0.

    Without a beat the clock was not read, and the loop's 20 ms belong to nobody known. Without a ``window``
    nobody saw what the device did between its waits; ``caught_up`` is the share of steps at whose end it had
    nothing left to do, ``inside`` the loop's time in calls that wait for it.
    """
    waits = beat.pop("input_s", 0.0)
    idle = sum(value for name, value in beat.items() if name != "host_s") or 0.02
    base = run_of(workers=workers, cpu=cpu, idle=idle, step=idle + waits, storage=storage, cores=cores)
    found = replace(
        facts or DeviceFacts(), kind=kind, pid=1, loader="1:1", driver=0 if kind == "cuda" else None
    )
    if beat:
        mean = DeviceWindow(5, idle + waits, input_s=waits, **beat)
        table = _table(base, mean, caught_up, inside)
        found = replace(found, table=table, window=mean if window else None)
    return replace(
        base,
        processes=[replace(base.processes[0], device=kind)],
        device=found,
        series=_series(base.series, nvml or {}),
    )


def _table(base: Profile, mean: DeviceWindow, caught_up: float | None, inside: float) -> DeviceTable:
    """One row per ten steps, each the same."""
    times = base.loops[0].table.t[EVERY - 1 :: EVERY]
    once: dict[str, float] = {
        "steps": 1, "looks": 1, "heard": 1, "wall_s": mean.wall_s, "wait_s": mean.input_s,
        "host_s": mean.host_s + mean.input_s + mean.other_s + inside, "inside_s": inside,
        "host_wait_s": mean.input_s, "copy_s": mean.transfer_s, "copies": int(mean.transfer_s > 0),
        "host_other_s": mean.other_s, "other_s": mean.other_s,
    }  # fmt: skip
    columns: dict[str, Any] = {
        one.name: [EVERY * once.get(one.name, 0)] * len(times) for one in fields(DeviceTable)
    }
    if caught_up is not None:
        columns["judged"] = columns["steps"]
        columns["caught_up"] = [round(EVERY * caught_up)] * len(times)
    return DeviceTable(**columns | {"t": times})


def _series(series: Series, nvml: dict[str, float]) -> Series:
    """What is said at every reading; names that end in ``max_mhz`` and the like are said once."""
    values: dict[str, list[float | None]] = dict(series.values)
    for name, value in nvml.items():
        once = "_max" in name or name in ("power_default_w", "mig")
        later: list[float | None] = [None if once else value] * (len(series.t) - 1)
        values[f"gpu0_{name}"] = [value, *later]
    return Series(series.t, values)
