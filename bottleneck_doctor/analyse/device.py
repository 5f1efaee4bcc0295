"""One view of the accelerator from its own clock, a profiler's window and the driver's samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import hypot
from statistics import multimode

from ..model.device import DeviceClockStep, DeviceFacts, DeviceTable, DeviceView, DeviceWindow, DriverView
from ..model.diagnosis import Step
from ..model.instruments import Series
from ..model.loops import Loop
from ..model.profile import Profile
from ..model.run import Gap
from .shares import FEW_SAMPLES, LARGE_PART, MOST, NEARLY_ALL, NOTICED, TRACE
from .steps import mean_in, ratio_interval, share_interval, span_of

PAIR_AT_MOST_S = 5e-6  # for two adjacent events [CUDA Runtime API: events resolve 0.5 us; the rest is chosen]

DIVIDED = ("launch_s", "sync_s", "memory_s", "collective_s", "unexplained_s")
PHASES = ("forward_s", "backward_s", "optimizer_s")


def read_clock(facts: DeviceFacts, begin: float, end: float, steady: list[Step]) -> DeviceClockStep | None:
    """The mean step, from the steps sampled between two instants; None where there are too few. The loop's
    clocks over all ``steady`` steps, unlike the sampled ones, miss no rare event."""
    table, step_s = facts.table, mean_in(steady)
    rows = [place for place, t in enumerate(table.t) if begin <= t <= end]
    if sum(table.looks[row] for row in rows) < FEW_SAMPLES or step_s <= 0:
        return None
    steps, heard = (max(1, sum(column[row] for row in rows)) for column in (table.steps, table.heard))

    def mean(column: list[float], count: int = steps) -> float:
        return sum(column[row] for row in rows) / count

    pair_s, copies = _pair_s(facts), sum(table.copies[row] for row in rows) / heard
    transfer_s = max(0.0, mean(table.copy_s, heard) - pair_s * copies)
    inside_s, blocked_s = mean(table.inside_s, heard), mean(table.blocked_s, heard)
    elsewhere_s = mean(table.host_wait_s) + mean(table.host_other_s) + inside_s + blocked_s
    share, low, high = _exposed(facts, rows, mean(table.fetched_s, heard), steady)
    # While the loop saves and logs the device idles for the loop's time in them, times the idle share in
    # sampled steps. Where none was sampled, for all of it: a rare one is long, and nothing hides it.
    aside_s, idle_s = (sum(column[row] for row in rows) for column in (table.host_other_s, table.other_s))
    other_s = mean_in(steady, "checkpoint") + mean_in(steady, "logging")
    input_s, other_s = share * step_s, other_s * (min(1.0, idle_s / aside_s) if aside_s > 0 else 1.0)
    judged = sum(table.judged[row] for row in rows)
    return DeviceClockStep(
        looks=sum(table.looks[row] for row in rows),
        wall_s=step_s,
        input_s=input_s,
        rest_s=max(0.0, step_s - input_s - transfer_s - other_s),
        low=low,
        high=high,
        transfer_s=transfer_s,
        other_s=other_s,
        issue_s=max(0.0, mean(table.host_s) - elsewhere_s - mean_in(steady, "collect")),
        inside_s=inside_s,
        blocked_s=blocked_s,
        caught_up=sum(table.caught_up[row] for row in rows) / judged if judged else None,
        heard=any(table.heard[row] for row in rows),
        backward_s=mean(table.backward_s),
        optimizer_s=mean(table.optimizer_s),
    )


def _pair_s(facts: DeviceFacts) -> float:
    return min(facts.least_pair_s, PAIR_AT_MOST_S)


def _exposed(
    facts: DeviceFacts, rows: list[int], fetched_s: float, steady: list[Step]
) -> tuple[float, float, float]:
    """The exposed wait as a share of the step, with its interval (90 %).

    Sampled steps are few, and waits may be rare and long. The samples give the part of a wait that is hidden
    behind queued work, which is never long. The rest of the waits on the loop's clock is exposed.
    """
    table, pair_s = facts.table, _pair_s(facts)
    idle = [max(0.0, table.wait_s[row] - (fetched_s + pair_s) * table.steps[row]) for row in rows]
    waited, walls = ([column[row] for row in rows] for column in (table.host_wait_s, table.wall_s))
    hidden = [max(0.0, wait - seen) for wait, seen in zip(waited, idle, strict=True)]
    whole, least, most = share_interval(steady, "wait")
    if not facts.loader and sum(waited) > 0:  # only a part of what precedes the forward pass gets a batch
        part = min(1.0, mean_in(steady, "wait") * sum(table.steps[row] for row in rows) / sum(waited))
        hidden = [part * one for one in hidden]
    share, low, high = ratio_interval(hidden, walls)
    exposed = min(max(0.0, whole - share), whole)
    below, above = hypot(whole - least, high - share), hypot(most - whole, share - low)
    return exposed, max(0.0, exposed - below), min(max(exposed, most), exposed + above)


def divide(clock: DeviceClockStep, window: DeviceWindow | None) -> DeviceWindow | None:
    """The mean step, divided; None without a window. Work that is left at a step's end does not prove a busy
    device: its queue may have been empty in the middle of the step."""
    if window is None or window.busy_s <= 0:
        return None
    # The kernels that `next` itself launches are no wait for data: the window's busy time beyond the rest of
    # the step, where the window hardly saw the device idle for data.
    beyond = window.busy_s - clock.rest_s
    idle = window.input_s / window.wall_s < MOST * clock.input_s / clock.wall_s
    input_s = max(0.0, clock.input_s - beyond) if beyond > 0 and idle else clock.input_s
    busy_s = min(window.busy_s, clock.rest_s + clock.input_s - input_s)
    left = clock.rest_s + clock.input_s - input_s - busy_s
    phases = {name: busy_s / window.busy_s * getattr(window, name) for name in PHASES}
    names = DIVIDED if clock.transfer_s > 0 else (*DIVIDED, "transfer_s")  # copies on a stream of their own
    parts = {name: getattr(window, name) for name in names}
    scale = min(1.0, left / max(sum(parts.values()), 1e-12))
    parts = {name: scale * value for name, value in parts.items()}
    # Both sources of what the loop needs to issue a step are too high: a window slows the loop, and one far
    # ahead, for which the device never waits, also waits for room in the queue by its clock.
    host_s = min(clock.issue_s, window.host_s) if window.host_s > 0 else clock.issue_s
    idle_s = window.launch_s + window.sync_s + window.memory_s + window.collective_s
    host_s = without_room(host_s, busy_s) if idle_s < TRACE * window.wall_s else host_s
    # Idle time beyond the window's parts counts as launching: the loop issued no work.
    parts["launch_s"] += left - sum(parts.values())
    return DeviceWindow(
        window.steps,
        clock.wall_s,
        busy_s,
        input_s,
        other_s=clock.other_s,
        host_s=host_s,
        communication_s=window.communication_s,
        **({"transfer_s": clock.transfer_s} | parts | phases),
    )


def is_always_ahead(clock: DeviceClockStep) -> bool:
    """Whether the device was done before the loop asked for the next batch, though nothing waited for it."""
    waits = not clock.heard or clock.inside_s + clock.blocked_s >= TRACE * clock.wall_s
    return not waits and clock.caught_up is not None and clock.caught_up >= NEARLY_ALL


def without_room(issue_s: float, device_s: float) -> float:
    """A loop's time without what it may have waited for room in the device's queue: what it then needs is
    between nothing and all of the device's time."""
    return device_s / 2 if issue_s > NEARLY_ALL * device_s else issue_s


SLOWING = ("power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "power_brake")
HOST = (None, "", "cpu", "meta")  # where tensors are when no accelerator is used
TIMED = ("cuda", "xpu")  # kinds of devices that torch can set timed marks on
NAMES = {
    "mps": "Apple GPU (MPS)", "xla": "TPU or other device of XLA", "hpu": "Intel Gaudi", "xpu": "Intel GPU",
    "npu": "Ascend NPU",
}  # fmt: skip

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
    trains = loop is not None and loop.role == "train" and mine.loader  # two loaders may feed one loop
    return mine if mine.loader == about or trains else replace(mine, table=DeviceTable())


def view_device(
    profile: Profile, begin: float, end: float, loop: Loop | None, steady: list[Step]
) -> DeviceView | None:
    """The accelerator of a loop between two instants; None where no process of the run uses one."""
    if not is_accelerated(profile):
        return None
    facts = facts_of(profile, loop)
    driver = DriverView()
    if facts.driver is not None:
        driver = view_driver(profile.series, f"gpu{facts.driver}_", begin, end)
    clock = read_clock(facts, begin, end, steady)
    beat, window = divide(clock, facts.window) if clock is not None else None, facts.window
    if beat is not None and window is not None and facts.syncs is not None and window.sync_s > 0:
        scale = beat.sync_s / window.sync_s  # under a profiler the loop is slower, the device idle for longer
        facts = replace(facts, syncs=[replace(one, idle_s=scale * one.idle_s) for one in facts.syncs])
    return DeviceView(replace(facts, sm_active_share=_filled(facts, driver, beat)), driver, beat, clock)


def other_views(profile: Profile, steady: list[Step]) -> Iterator[tuple[DeviceFacts, DeviceView]]:
    """What the driver says of the devices of the other ranks on this machine, while the loop trained."""
    begin, end = span_of(steady)
    for facts in profile.other_devices:
        if facts.driver is not None:
            driver = view_driver(profile.series, f"gpu{facts.driver}_", begin, end)
            yield facts, DeviceView(facts, driver)


def _filled(facts: DeviceFacts, driver: DriverView, beat: DeviceWindow | None) -> float | None:
    """The share of multiprocessors with work while busy: a window bounds it by what kernels asked for, the
    driver's monitors count it."""
    busy = beat.busy_s / beat.wall_s if beat is not None and beat.wall_s > 0 else driver.kernel_share
    known = [] if facts.sm_active_share is None else [facts.sm_active_share]
    if driver.sm_active_share is not None and busy:
        known.append(min(1.0, driver.sm_active_share / busy))
    return min(known, default=None)


def find_gaps(view: DeviceView | None) -> list[Gap]:
    """What is unknown about the accelerator, and why."""
    if view is None:
        return []
    facts = view.facts
    if view.clock is None and facts.kind not in TIMED:
        name = NAMES.get(facts.kind, f"device {facts.kind!r}")
        why = "torch has no timed marks for it: steps, data wait, workers and the host's code are measured, "
        return [Gap(name, why + "its kernels, waits and memory are not")]
    if view.clock is None:
        why = facts.silent or "too few steps with marks on its timeline"
        return [Gap("the accelerator's own clock", why)]
    if view.beat is None:
        why = "without a profiler's window, computing and waiting to be given work look alike"
        return [Gap("how busy the accelerator is", why, "let it run for longer, without --no-profiler")]
    return []


def view_driver(series: Series, prefix: str, begin: float, end: float) -> DriverView:
    """The driver's readings of one device between two instants, while it was busy: idle ones clock down."""
    readings = _readings(series, prefix, begin, end)
    busy = [one for one in readings if one.get("busy_share", 1.0) >= LARGE_PART]
    busy = [one for one in busy if not one.get("clocks_idle")]
    once = {name: value for one in _readings(series, prefix, 0.0, end) for name, value in one.items()}
    gen, width = _usual(busy, "pcie_gen"), _usual(busy, "pcie_width")
    lanes, gen_max, link = _ratio(width, once.get("pcie_width_max")), once.get("pcie_gen_max"), None
    if gen is not None and lanes is not None and gen_max is not None:
        link = min(1.0, lanes * 2.0 ** min(0.0, gen - gen_max))  # each generation doubles a lane's bandwidth
    return DriverView(
        readings=len(busy),
        kernel_share=_mean(readings, "busy_share"),
        clock_share=_ratio(_mean(busy, "sm_clock_mhz"), once.get("sm_clock_max_mhz")),
        slowed={name: mean for name in SLOWING if (mean := _mean(busy, f"clocks_{name}")) is not None},
        power_share=_ratio(_mean(busy, "power_w"), once.get("power_limit_w")),
        power_limit_w=once.get("power_limit_w"),
        power_default_w=once.get("power_default_w"),
        link_share=link,
        link_gen=gen,
        link_gen_max=gen_max,
        link_width=width,
        link_width_max=once.get("pcie_width_max"),
        memory_bytes=once.get("memory_bytes"),
        sm_active_share=_mean(readings, "sm_active_share"),
        tensor_active_share=_mean(readings, "tensor_active_share"),
        dram_active_share=_mean(readings, "dram_active_share"),
        **_shared(readings),
    )


def _readings(series: Series, prefix: str, begin: float, end: float) -> list[Reading]:
    """One dictionary per instant with a reading of the device, names without the prefix."""
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


def _usual(readings: list[Reading], name: str) -> float | None:
    """The most frequent value: between bursts cards lower the link for an instant, which distorts a mean.
    Clocks have no such levels: their mean is what kernels run at."""
    return max(multimode(one[name] for one in readings if name in one), default=None)


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _shared(readings: list[Reading]) -> dict[str, float | None]:
    """Other processes on the device. In a container the driver's process ids may be the host's: where none
    of them is the job's, its processes and others cannot be distinguished, and nothing is returned."""
    if not any(one.get("job_processes", 0.0) >= 1 for one in readings):
        return {}
    found = {
        "foreign_processes": _mean(readings, "foreign_processes"),
        "foreign_bytes": _mean(readings, "foreign_memory_bytes"),
    }
    ours, theirs = _mean(readings, "job_busy_share"), _mean(readings, "foreign_busy_share")
    if ours is not None and theirs is not None and ours + theirs > 0:
        found["our_share"] = ours / (ours + theirs)
    return found


def runs_ahead(view: DeviceView, wait_s: float, syncs: bool = True, copies: bool = True) -> float:
    """1.0 where the loop leaves work queued on the device when it goes on, 0.0 where it waits for all of it.

    ``syncs``/``copies`` False: as if calls that read values back, or copies, did not block. Blocking calls
    alone do not prove that it waits: the device must have been idle for a batch, or after the call.
    """
    beat, facts = view.beat, view.facts
    if beat is None:
        whole = view.clock is None or (wait_s > 0 and view.clock.input_s >= NEARLY_ALL * wait_s)
        return 0.0 if whole else 1.0
    waits = sum(one.count for one in facts.syncs or []) if syncs else 0.0
    waits += sum(one.count for one in facts.copies or [] if one.blocking) if copies else 0.0
    read = beat.sync_s if facts.syncs is None else min(beat.sync_s, sum(one.idle_s for one in facts.syncs))
    drained = beat.memory_s + (read if syncs else 0.0) + (beat.sync_s - read if copies else 0.0)
    if drained >= TRACE * beat.wall_s:
        return 0.0
    exposed = wait_s > 0 and beat.input_s >= MOST * wait_s
    return 0.0 if waits >= MOST and exposed else 1.0


def clock_loss(view: DeviceView) -> float | None:
    """The clock while busy over the highest, where something holds it down; None where nothing is known to.

    A low clock alone proves nothing: users lock clocks, and a large device at work is limited by its power as
    designed. Heat, a hardware slowdown, a power brake or a limit below the card's own is what counts.
    """
    driver = view.driver
    if driver.readings < FEW_SAMPLES or driver.clock_share is None or not held_down(driver):
        return None
    return min(1.0, driver.clock_share)


def held_down(driver: DriverView) -> dict[str, float]:
    """Why clocks are low that should not be, with the share of busy readings that named it."""
    limit, default = driver.power_limit_w, driver.power_default_w
    lowered = limit is not None and default is not None and limit < default
    return {
        name: share
        for name, share in driver.slowed.items()
        if share > NOTICED and (name != "power_cap" or lowered)
    }
