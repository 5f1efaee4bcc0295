"""What the loop does with each batch, by kind: the turns of the replay, from the measured steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..model.derived import DeviceView
from ..model.diagnosis import Step, StepCost
from .device_replay import device_cost, undivided_cost
from .loop_cpu import NOTHING, LoopCpuSplit, host_cpu_s
from .memory import paging_s
from .steps import steps_in

COSTS_AT_MOST = 192
HELD_AT_MOST = 0.9  # of the loop's own time without a core: the rest issues the work (ours)


@dataclass(frozen=True)
class Beside:
    """What is known of the loop's time beside the steps' own clocks.

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

    With an accelerator the thread's CPU clock says nothing: waiting for a device spins. Its own clock does.
    """
    queue = max(0.0, (step.queue or 0.0) - step.wait_queue)
    collect = _collecting(step, queue)
    queue = max(0.0, queue - (step.collect - collect))
    host = (step.checkpoint, step.logging, collect)
    device = beside.device
    if device is not None and device.beat is not None:
        held = min(HELD_AT_MOST, queue / max(step.wall - step.wait, 1e-12))
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
