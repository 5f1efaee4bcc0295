"""One view of the accelerator from its own clock, a profiler's window and the driver's samples; pure."""

from __future__ import annotations

from dataclasses import fields

from ..model.device import Beat, DeviceFacts, DeviceTable, DeviceView, DriverView
from ..model.profile import Profile, Series

BUSY = 0.3  # NVML busy share from which a reading counts: idle devices clock down by design (ours)
SLOWING = ("power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
FOREIGN = ("foreign_processes", "foreign_memory_bytes")

Reading = dict[str, float]


def view_device(profile: Profile, begin: float, end: float) -> DeviceView | None:
    """The accelerator between two instants; None where no process of the run uses one."""
    if not any(process.device == "cuda" for process in profile.processes):
        return None
    facts = profile.device or DeviceFacts()
    driver = view_driver(profile.series, f"gpu{facts.index}_", begin, end)
    return DeviceView(facts, driver, mean_beat(facts.table, begin, end))


def mean_beat(table: DeviceTable, begin: float, end: float) -> Beat | None:
    """The mean step over the rows that end between two instants; None where the clock was not read."""
    rows = [place for place, t in enumerate(table.t) if begin <= t <= end]
    steps = sum(table.steps[place] for place in rows)
    if not steps:
        return None
    names = [one.name for one in fields(Beat) if one.name != "steps"]
    sums = {name: sum(getattr(table, name)[place] for place in rows) for name in names}
    return Beat(steps, **{name: total / steps for name, total in sums.items()})


def view_driver(series: Series, prefix: str, begin: float, end: float) -> DriverView:
    """What NVML said of one device while it was busy, between two instants."""
    readings = _readings(series, prefix, begin, end)
    busy = [one for one in readings if one.get("busy_share", 1.0) >= BUSY and not one.get("clocks_idle")]
    once = {name: value for one in _readings(series, prefix, 0.0, end) for name, value in one.items()}
    return DriverView(
        readings=len(busy),
        kernel_share=_mean(readings, "busy_share"),
        clock_share=_ratio(_mean(busy, "sm_clock_mhz"), once.get("sm_clock_max_mhz")),
        slowed={name: mean for name in SLOWING if (mean := _mean(busy, f"clocks_{name}")) is not None},
        power_share=_ratio(_mean(busy, "power_w"), once.get("power_limit_w")),
        power_limit_w=once.get("power_limit_w"),
        power_default_w=once.get("power_default_w"),
        link_share=_link(_mean(busy, "pcie_gen"), _mean(busy, "pcie_width"), once),
        link_gen=_mean(busy, "pcie_gen"),
        link_gen_max=once.get("pcie_gen_max"),
        link_width=_mean(busy, "pcie_width"),
        link_width_max=once.get("pcie_width_max"),
        memory_bytes=once.get("memory_bytes"),
        partitioned=bool(once.get("mig")),
        **_shared(readings),
    )


def _readings(series: Series, prefix: str, begin: float, end: float) -> list[Reading]:
    """One dictionary per instant at which the device said anything, without the prefix."""
    mine = {name.removeprefix(prefix): row for name, row in series.values.items() if name.startswith(prefix)}
    rows = []
    for place, t in enumerate(series.t):
        known = {name: value for name, row in mine.items() if (value := row[place]) is not None}
        if begin <= t <= end and known:
            rows.append(known)
    return rows


def _mean(readings: list[Reading], name: str) -> float | None:
    values = [one[name] for one in readings if name in one]
    return sum(values) / len(values) if values else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _link(gen: float | None, width: float | None, once: Reading) -> float | None:
    """The link's bandwidth over the widest it has: each generation doubles a lane."""
    lanes, gen_max = _ratio(width, once.get("pcie_width_max")), once.get("pcie_gen_max")
    if gen is None or lanes is None or gen_max is None:
        return None
    return float(min(1.0, lanes * 2.0 ** min(0.0, gen - gen_max)))


def _shared(readings: list[Reading]) -> dict[str, float | None]:
    """Strangers on the device. In a container the driver's process numbers are not ours: where it names no
    process of the job, strangers cannot be told from it."""
    if not any(one.get("job_processes", 0.0) >= 1 for one in readings):
        return {}
    names = dict(zip(("foreign_processes", "foreign_bytes"), FOREIGN, strict=True))
    found = {field: _mean(readings, name) for field, name in names.items()}
    ours, theirs = _mean(readings, "job_busy_share"), _mean(readings, "foreign_busy_share")
    if ours is not None and theirs is not None and ours + theirs > 0:
        found["our_share"] = ours / (ours + theirs)
    return found
