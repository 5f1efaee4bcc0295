"""What the loop does with each batch, by kind, and how the replay sees a loop with an accelerator."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ..model.derived import DeviceClockStep, DeviceView
from ..model.device import DeviceWindow
from ..model.diagnosis import Step, StepCost
from .device import is_always_ahead, without_room
from .loop_cpu import NOTHING, LoopCpuSplit, host_cpu_s
from .memory import paging_s
from .shares import NEARLY_ALL
from .steps import steps_in

COSTS_AT_MOST = 192


@dataclass(frozen=True)
class LoopFacts:
    """What is known of the loop's time in addition to the steps' own clocks.

    ``exchange``: shares of time asleep in exchanges that are the exchange itself, and slower ranks; the rest
    waits for ranks without a core. ``release``: what a step pays for tensors that came from other processes.
    ``threads``: on how many cores the loop computes. ``copied``: its CPU for exchanged gradients.
    ``stored``: the share of its writing in which it sleeps. ``fault_s``: what mapping a page takes.
    """

    accelerated: bool = False
    device: DeviceView | None = None
    split: LoopCpuSplit = NOTHING
    exchange: tuple[float, float] = (1.0, 0.0)
    release: float = 0.0
    threads: float = 1.0
    copied: float = 0.0
    stored: float = 0.0
    fault_s: float | None = None


def costs_of(steps: list[Step], known: LoopFacts) -> tuple[StepCost, ...]:
    """One turn for each step, or for the mean of neighbours in a long run."""
    return tuple(cost_of(step, known) for step in spaced(steps))


def cost_of(step: Step, known: LoopFacts) -> StepCost:
    """Split the loop's own time into its kinds of CPU and idle; waiting for a core belongs to none.

    With an accelerator the thread's CPU clock is not used, since waiting for a device spins.
    """
    queue, collect = step.held, step.collect
    if step.cpu is not None and step.cpu > 0:  # it never sleeps: it waits for a core like the rest of the CPU
        collect = max(collect - queue, collect * step.cpu / (step.cpu + queue))
    queue = max(0.0, queue - (step.collect - collect))
    host = (step.checkpoint, step.logging, collect)
    device = known.device
    if device is not None and device.beat is not None:
        held = min(NEARLY_ALL, queue / max(step.wall - step.wait, 1e-12))
        return device_cost(device.beat, *host, held, behind=known.exchange[1])
    if device is not None and device.clock is not None:
        return _undivided_cost(device.clock, *host)
    copied = known.copied if step.exchange > 0 else 0.0
    itself, slower = (step.exchange * share for share in known.exchange)
    ranks = {"comm": itself + copied, "straggler": slower}
    own = step.compute + step.backward + step.optimizer + step.copy
    if known.accelerated:
        return StepCost(0.0, own, *host, **ranks)
    spent = host_cpu_s(step, known.stored, collect)
    cpu = own if step.cpu is None else min(own, max(0.0, step.cpu - spent))
    idle = max(0.0, own - cpu - min(queue, own))
    cpu = max(0.0, cpu - copied)
    cpu -= min(known.release, 0.5 * cpu)
    mapping = paging_s(step.system, step.faults, known.fault_s)
    paging = min(cpu, mapping / max(1.0, known.threads))  # threads fault side by side
    cpu -= paging
    python, launch = cpu * known.split.python, cpu * known.split.launch
    compute = max(0.0, cpu - python - launch)
    return StepCost(compute, idle, *host, python, launch, paging=paging, **ranks)


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
    means: dict[str, Any] = {}
    for name in (one.name for one in fields(Step) if one.name not in ("t", "steps")):
        known = [(weight, value) for weight, step in group if (value := getattr(step, name)) is not None]
        whole = sum(weight for weight, _ in known)
        means[name] = sum(weight * value for weight, value in known) / whole if whole > 0 else None
    return replace(group[-1][1], **means)


def device_cost(
    beat: DeviceWindow,
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


def _undivided_cost(clock: DeviceClockStep, checkpoint: float, logging: float, collect: float) -> StepCost:
    """The turn where it is not known how busy the device is: all that is no waiting of its own is taken for
    computing, unless it was seen to be done each time before the loop came back."""
    launch, device = without_room(clock.issue_s, clock.rest_s), clock.rest_s
    if is_always_ahead(clock):
        launch, device = clock.rest_s, 0.0
    return StepCost(
        0.0, 0.0, checkpoint, logging, collect, launch=launch, device=device, copying=clock.transfer_s
    )
