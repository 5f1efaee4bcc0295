"""What getting a batch costs a loop without a loader: by its thread's clocks, and by what it sleeps in."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..model.diagnosis import BatchCost, Inputs, Step
from ..model.loops import Loop
from ..model.profile import Profile
from .inputs import BUCKET_S, UNSEEN, BlockedSplit, looks_at, shares_of
from .memory import paging_s
from .step_costs import spaced
from .steps import seconds_in, span_of, steps_in

KERNEL_S_PER_BYTE = 1.5e-9  # CPU of the kernel for what storage sends, at most (ours, measured 0.7 to 0.9)
SAMPLES_AT_LEAST = 50  # from outside, below which the share of time asleep is a guess (ours)


def split_waits(profile: Profile, loop: Loop, begin: float, end: float) -> BlockedSplit:
    """How the blocked time of a loop's thread divides, by looks from outside."""
    seen = looks_at(profile, "", loop.pid, begin - BUCKET_S, end)
    return shares_of(seen) or UNSEEN


def disagreement(profile: Profile, loop: Loop | None, steps: list[Step]) -> float:
    """How far the share of time in which the loop's thread slept, by its own clocks, lies from that seen from
    outside; 0 where either is not known."""
    if loop is None or not steps:
        return 0.0
    begin, end = span_of(steps)
    seen = looks_at(profile, "", loop.pid, begin, end - BUCKET_S)
    known = [step for step in steps if step.cpu is not None and step.queue is not None]
    wall = seconds_in(known)
    if seen.total() < SAMPLES_AT_LEAST or wall <= 0:
        return 0.0
    awake = sum(seconds_in(known, part) for part in ("cpu", "wait_cpu", "queue"))
    return abs(min(1.0, awake / wall) - seen["running"] / seen.total())


def with_feeders(split: BlockedSplit, busy: float) -> BlockedSplit:
    """Waiting in a lock for busy feeders is the making of batches: CPU, as far as they have any. The thread
    that wakes the loop may itself wait for those that compute: looks at it alone see too little of that."""
    asleep, seen = split.waits.get("lock", 0.0), split.made or 0.0
    made = max(seen, busy * (asleep + seen))
    return replace(split, waits={**split.waits, "lock": asleep + seen - made}, made=made)


def own_works(steps: list[Step], split: BlockedSplit, read_bytes_per_s: float) -> tuple[BatchCost, ...]:
    """The batches as the replay wants them, net of waiting for a core."""
    return tuple(_work(step, split, read_bytes_per_s) for step in spaced(steps))


def _work(step: Step, split: BlockedSplit, read_bytes_per_s: float) -> BatchCost:
    cpu = min(step.wait, step.wait_cpu or 0.0)
    blocked = max(0.0, step.wait - cpu - step.wait_queue)
    making = cpu + blocked * (split.made or 0.0)
    kernel = max(0.0, (step.system or 0.0) - paging_s(step.system, step.faults))
    reading = min(making, kernel, KERNEL_S_PER_BYTE * read_bytes_per_s * step.wall)
    return BatchCost(
        cpu=making - reading,
        reading=reading,
        storage=blocked * split.storage,
        network=blocked * split.network,
        wait=blocked * sum(split.waits.values()),
    )


def own_inputs(steps: list[Step], split: BlockedSplit, read_bytes_per_s: float) -> Inputs:
    """The same as means per batch."""
    if not steps:
        return Inputs()
    works = [_work(step, split, read_bytes_per_s) for step in steps]
    blocked = fmean([max(0.0, step.wait - step.wait_queue - (step.wait_cpu or 0.0)) for step in steps])
    return Inputs(
        batches=steps_in(steps),
        wall=fmean([step.wait for step in steps]),
        cpu=fmean([one.on_core for one in works]),
        reading=fmean([one.reading for one in works]),
        queue=fmean([step.wait_queue for step in steps]),
        storage=fmean([one.storage for one in works]),
        network=fmean([one.network for one in works]),
        wait=fmean([one.wait for one in works]),
        waits={name: blocked * share for name, share in split.waits.items()},
        blocked_samples=split.samples,
    )
