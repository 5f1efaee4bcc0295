"""Synthetic runs on an accelerator: what its clock, a profiler and NVML would say. Simulated, all of it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from bottleneck_doctor.model.device import Beat, DeviceFacts, DeviceTable
from bottleneck_doctor.model.profile import Profile, Series
from tests.analyse.runs import run_of

EVERY = 10  # steps that a row of the device's table covers


def device_run(
    facts: DeviceFacts | None = None,
    nvml: dict[str, float] | None = None,
    cpu: float = 1e-3,
    workers: int = 2,
    **beat: float,
) -> Profile:
    """A run whose device keeps this beat, in seconds per step; ``nvml`` are constant readings of cuda:0.

    Without a beat the clock was not read, and the loop's 20 ms belong to nobody known.
    """
    waits = beat.pop("input_s", 0.0)
    idle = sum(value for name, value in beat.items() if name != "host_s") or 0.02
    base = run_of(workers=workers, cpu=cpu, idle=idle, step=idle + waits)
    table = _table(base, Beat(1, idle + waits, input_s=waits, **beat)) if beat else DeviceTable()
    return replace(
        base,
        processes=[replace(base.processes[0], device="cuda")],
        device=replace(facts or DeviceFacts(), table=table),
        series=_series(base.series, nvml or {}),
    )


def _table(base: Profile, beat: Beat) -> DeviceTable:
    """One row per ten steps, each the same."""
    times = base.loops[0].table.t[EVERY - 1 :: EVERY]
    names = [one.name for one in fields(Beat) if one.name != "steps"]
    columns: dict[str, Any] = {name: [EVERY * getattr(beat, name)] * len(times) for name in names}
    return DeviceTable(t=times, steps=[EVERY] * len(times), **columns)


def _series(series: Series, nvml: dict[str, float]) -> Series:
    """What is said at every reading; names that end in ``max_mhz`` and the like are said once."""
    values: dict[str, list[float | None]] = dict(series.values)
    for name, value in nvml.items():
        once = "_max" in name or name in ("power_default_w", "mig")
        later: list[float | None] = [None if once else value] * (len(series.t) - 1)
        values[f"gpu0_{name}"] = [value, *later]
    return Series(series.t, values)
