"""What the loop does with each batch, by kind, and how the replay sees a loop with an accelerator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..model.derived import DeviceClockStep, DeviceStepBreakdown, DeviceView, DriverView
from ..model.diagnosis import Change, HostLoad, Scenario, Step, StepCost
from .device import is_always_ahead, without_room
from .loop_cpu import NOTHING, LoopCpuSplit, host_cpu_s
from .memory import paging_s
from .shares import MOST, NEARLY_ALL, NOTICED, TRACE
from .steps import steps_in

COSTS_AT_MOST = 192


@dataclass(frozen=True)
class Beside:
    """What is known of the loop's time in addition to the steps' own clocks.

    ``shares`` of time asleep in exchanges are the exchange itself and slower ranks; the rest waits for ranks
    without a core. ``release`` is what a step pays for tensors that came from another process: moving, too.
    ``threads`` is on how many cores the loop computes, ``copied`` its CPU for gradients that were exchanged,
    ``stored`` the share of its writing in which it sleeps, ``fault_s`` what mapping a page takes.
    """

    accelerated: bool = False
    device: DeviceView | None = None
    split: LoopCpuSplit = NOTHING
    shares: tuple[float, float] = (1.0, 0.0)
    release: float = 0.0
    threads: float = 1.0
    copied: float = 0.0
    stored: float = 0.0
    fault_s: float | None = None


def costs_of(steps: list[Step], beside: Beside) -> tuple[StepCost, ...]:
    """One turn for each step, or for the mean of neighbours in a long run."""
    return tuple(cost_of(step, beside) for step in spaced(steps))


def cost_of(step: Step, beside: Beside) -> StepCost:
    """Split the loop's own time into its kinds of CPU and idle; waiting for a core belongs to none.

    With an accelerator the thread's CPU clock is not used, since waiting for a device spins.
    """
    queue = max(0.0, (step.queue or 0.0) - step.wait_queue)
    collect = _collecting(step, queue)
    queue = max(0.0, queue - (step.collect - collect))
    host = (step.checkpoint, step.logging, collect)
    device = beside.device
    if device is not None and device.beat is not None:
        held = min(NEARLY_ALL, queue / max(step.wall - step.wait, 1e-12))
        return device_cost(device.beat, *host, held, behind=beside.shares[1])
    if device is not None and device.clock is not None:
        return undivided_cost(device.clock, *host)
    copied = beside.copied if step.exchange > 0 else 0.0
    ranks = {"comm": step.exchange * beside.shares[0] + copied, "straggler": step.exchange * beside.shares[1]}
    own = step.compute + step.backward + step.optimizer + step.copy
    if beside.accelerated:
        return StepCost(0.0, own, *host, **ranks)
    spent = host_cpu_s(step, beside.stored, collect)
    cpu = own if step.cpu is None else min(own, max(0.0, step.cpu - spent))
    idle = max(0.0, own - cpu - min(queue, own))
    cpu = max(0.0, cpu - copied)
    cpu -= min(beside.release, 0.5 * cpu)
    mapping = paging_s(step.system, step.faults, beside.fault_s)
    paging = min(cpu, mapping / max(1.0, beside.threads))  # threads fault side by side
    cpu -= paging
    python, launch = cpu * beside.split.python, cpu * beside.split.launch
    compute = max(0.0, cpu - python - launch)
    return StepCost(compute, idle, *host, python, launch, paging=paging, **ranks)


def _collecting(step: Step, queue: float) -> float:
    """Garbage collection net of waiting for a core: it never sleeps, so it waits like the rest of the CPU."""
    if step.cpu is None or step.cpu <= 0:
        return step.collect
    return max(step.collect - queue, step.collect * step.cpu / (step.cpu + queue))


def spaced(steps: list[Step]) -> list[Step]:
    """At most TURNS_AT_MOST rows of as many steps each, so that rare stalls keep their weight: rows are short
    where an epoch begins or ends."""
    many = min(len(steps), COSTS_AT_MOST)
    if len({step.steps for step in steps}) <= 1 and many == len(steps):
        return steps
    size = room = steps_in(steps)  # in parts of a step, of which each has ``many``
    groups: list[list[tuple[int, Step]]] = [[]]
    for step in steps:
        left = step.steps * many
        while left > 0:
            if not room:
                groups.append([])
                room = size
            part = min(left, room)
            groups[-1].append((part, step))
            left, room = left - part, room - part
    return [_average(group) for group in groups if group]


def _average(group: list[tuple[int, Step]]) -> Step:
    """The mean of steps, each with its weight."""
    names = "wall wait backward optimizer checkpoint logging collect copy compute exchange wait_queue".split()
    optional = ("cpu", "queue", "process_cpu", "wait_cpu", "system", "faults")
    means: dict[str, Any] = {}
    for name in (*names, *optional):
        known = [(weight, value) for weight, step in group if (value := getattr(step, name)) is not None]
        whole = sum(weight for weight, _ in known)
        means[name] = sum(weight * value for weight, value in known) / whole if whole > 0 else None
    return replace(group[-1][1], **means)


LEAST = 0.1  # of the device's time left by one cure: a larger promise is not credible (chosen)
CLOCK_LOW = 0.85  # of the highest clock, below which the device is slow (chosen)
LOWERED = 0.98  # of the card's own power limit; below it, a user has lowered it (chosen)
WORKING = 10  # NVML readings of a busy device, at least: 5 s (chosen)


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


def device_cost(
    beat: DeviceStepBreakdown,
    checkpoint: float = 0.0,
    logging: float = 0.0,
    collect: float = 0.0,
    held: float = 0.0,
    behind: float = 0.0,
) -> StepCost:
    """The turn of a loop whose device's clock was read. The thread's CPU clock is not used, since waiting for
    a device spins. ``held`` is the share of its time in which the loop had no core: that
    is the replay's to add. ``behind`` is the share of its exchanges that it waits for slower ranks."""
    return StepCost(
        compute=0.0,
        checkpoint=checkpoint,
        logging=logging,
        collect=collect,
        launch=max(0.0, beat.host_s - beat.sync_s) * (1 - held),
        comm=beat.collective_s * (1 - behind),
        straggler=beat.collective_s * behind,
        device=beat.busy_s,
        copying=beat.transfer_s,
        lead_in=beat.sync_s * (1 - held),
        allocating=beat.memory_s,
    )


def undivided_cost(clock: DeviceClockStep, checkpoint: float, logging: float, collect: float) -> StepCost:
    """The turn where it is not known how busy the device is: all that is no waiting of its own is taken for
    computing, unless it was seen to be done each time before the loop came back."""
    launch, device = without_room(clock.issue_s, clock.rest_s), clock.rest_s
    if is_always_ahead(clock):
        launch, device = clock.rest_s, 0.0
    return StepCost(
        0.0, 0.0, checkpoint, logging, collect, launch=launch, device=device, copying=clock.transfer_s
    )


def is_clocked(base: Scenario) -> bool:
    """Whether the replay knows the device's own time, rather than how long the loop was not elsewhere."""
    return not base.undivided and any(cost.device > 0 for cost in base.costs)


def scaled_device(base: Scenario, host: HostLoad, factor: float) -> Change:
    """The device's own work made to take ``factor`` of its time. Without its clock only the share in which
    the driver saw a kernel resident is known to be its own."""
    factor = max(LEAST, factor)
    if is_clocked(base):
        return Change(device=factor)
    known = 1 - (host.device_busy or 0.0) * (1 - factor)
    return Change(idle=known, device=known)


def troubles(base: Scenario, host: HostLoad, view: DeviceView | None) -> dict[str, Change]:
    """Causes for which the device is slower than it could be at the same work, and what takes each away."""
    if view is None:
        return {}
    driver, found = view.driver, {}
    if driver.our_share is not None:
        found["device.shared"] = scaled_device(base, host, driver.our_share)
    slow = clock_loss(view)
    if slow is not None and slow < CLOCK_LOW:
        found["device.throttled"] = scaled_device(base, host, slow)
    filled = view.facts.sm_active_share
    if filled is not None and filled < MOST:
        found["device.underfilled"] = scaled_device(base, host, filled)
    if view.beat is not None and view.beat.memory_s > 0:
        found["device.memory"] = Change(allocating=0.0)
    return found


def clock_loss(view: DeviceView) -> float | None:
    """The clock while busy over the highest, where something holds it down; None where nothing is known to.

    A low clock alone proves nothing: users lock clocks, and a large device at work is limited by its power as
    designed. Heat, a hardware slowdown, a power brake or a limit below the card's own is what counts.
    """
    driver = view.driver
    if driver.readings < WORKING or driver.clock_share is None or not held_down(driver):
        return None
    return min(1.0, driver.clock_share)


def held_down(driver: DriverView) -> dict[str, float]:
    """Why clocks are low that should not be, with the share of busy readings that named it."""
    limit, default = driver.power_limit_w, driver.power_default_w
    lowered = limit is not None and default is not None and limit < LOWERED * default
    return {
        name: share
        for name, share in driver.slowed.items()
        if share > NOTICED and (name != "power_cap" or lowered)
    }
