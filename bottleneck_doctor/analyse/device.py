"""One view of the accelerator from its own clock, a profiler's window and the driver's samples; pure."""

from __future__ import annotations

from dataclasses import replace

from ..model.derived import DeviceStepBreakdown, DeviceView, DriverView
from ..model.device import DeviceFacts, DeviceTable
from ..model.instruments import Series
from ..model.loops import Loop
from ..model.profile import Profile
from ..model.run import Gap
from .beat import Aside, divide, read_clock

BUSY = 0.3  # NVML busy share from which a reading counts: idle devices clock down by design (ours)
SLOWING = ("power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
FOREIGN = ("foreign_processes", "foreign_memory_bytes")
HOST = (None, "", "cpu", "meta")  # where tensors are when no accelerator is used
TIMED = ("cuda", "xpu")  # kinds of devices that torch can set timed marks on

Reading = dict[str, float]


def is_accelerated(profile: Profile) -> bool:
    """Whether some process of the run computes on an accelerator, of whatever kind."""
    return any(process.device not in HOST for process in profile.processes)


def facts_of(profile: Profile, loop: Loop | None) -> DeviceFacts:
    """What was measured of the device of the loop's own process; the table only if it is a training loop's,
    where this is one."""
    known = [one for one in (profile.device, *profile.other_devices) if one is not None]
    mine = next((one for one in known if loop is None or one.pid == loop.pid), None)
    if mine is None:
        kinds = [process.device for process in profile.processes if process.device not in HOST]
        kind = kinds[0] if kinds and kinds[0] else ""
        return DeviceFacts(kind=kind, driver=0 if kind == "cuda" and not known else None)
    about = loop.loader if loop is not None else ""
    beside = loop is not None and loop.role == "train" and mine.loader  # two loaders may feed one loop
    return mine if mine.loader == about or beside else replace(mine, table=DeviceTable())


def view_device(
    profile: Profile, begin: float, end: float, loop: Loop | None, aside: Aside
) -> DeviceView | None:
    """The accelerator of a loop between two instants; None where no process of the run uses one."""
    if not is_accelerated(profile):
        return None
    facts = facts_of(profile, loop)
    driver = DriverView()
    if facts.driver is not None:
        driver = view_driver(profile.series, f"gpu{facts.driver}_", begin, end)
    clock = read_clock(facts, begin, end, aside)
    beat = divide(clock, facts.window) if clock is not None else None
    facts = replace(_settled(facts, beat), sm_active_share=_filled(facts, driver, beat))
    return DeviceView(facts, driver, beat, clock)


def _filled(facts: DeviceFacts, driver: DriverView, beat: DeviceStepBreakdown | None) -> float | None:
    """The share of multiprocessors with work while busy: a window bounds it by what kernels asked for, the
    driver's monitors count it."""
    busy = beat.busy_s / beat.wall_s if beat is not None and beat.wall_s > 0 else driver.kernel_share
    known = [] if facts.sm_active_share is None else [facts.sm_active_share]
    if driver.sm_active_share is not None and busy:
        known.append(min(1.0, driver.sm_active_share / busy))
    return min(known, default=None)


def _settled(facts: DeviceFacts, beat: DeviceStepBreakdown | None) -> DeviceFacts:
    """A loop that is slower under a profiler leaves the device idle for longer after each wait than it does
    alone: of all that, each call keeps its part."""
    window = facts.window
    if beat is None or window is None or facts.syncs is None or window.sync_s <= 0:
        return facts
    scale = beat.sync_s / window.sync_s
    return replace(facts, syncs=[replace(one, idle_s=scale * one.idle_s) for one in facts.syncs])


def find_gaps(view: DeviceView | None) -> list[Gap]:
    """What is not known of the accelerator, and why."""
    if view is None:
        return []
    facts = view.facts
    if view.clock is None:
        why = facts.silent or "too few steps with marks on its timeline"
        why = why if facts.kind in TIMED else f"torch has no timed marks for devices of kind {facts.kind!r}"
        return [Gap("the accelerator's own clock", why)]
    if view.beat is None:
        why = "without a profiler's window, computing and waiting to be given work look alike"
        return [Gap("how busy the accelerator is", why, "let it run for longer, without --no-profiler")]
    return []


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
        sm_active_share=_mean(readings, "sm_active_share"),
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
