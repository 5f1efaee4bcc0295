"""Judges how long the model's threads spin for one that has no core.

A parallel region of OpenMP ends with its slowest thread; until then the others use up a core each.
"""

from __future__ import annotations

from itertools import combinations
from statistics import fmean, quantiles

from ..model.diagnosis import Scenario, Step
from ..model.loops import Loop
from ..model.profile import Profile
from .threads import torch_threads

STEPS_AT_LEAST = 12  # that were timed one by one (ours)
TOGETHER = 0.75  # of all pairs of steps: both passes grow, there is more to do (ours; 0.5 is chance)
QUEUED = 0.1  # of the step without a core, below which nobody is in the way (ours)


def spinning_share(
    profile: Profile, loop: Loop | None, steps: list[Step], base: Scenario, makers: int
) -> float:
    """The share of the loop's CPU in which it spins because ``makers`` of batches keep a core from another
    thread of the model: what lies beyond its quickest steps.

    A step with more to do takes longer in both passes, and then nothing is known; one that spins, in one.
    """
    threads = torch_threads(profile, loop) or 1
    surplus = threads > base.cores + 0.5  # they are in each other's way
    if not makers or threads == 1 or surplus or makers + threads <= base.cores + 0.5:
        return 0.0
    queued = sum((step.queue or 0.0) * step.steps for step in steps)
    single = [step for step in steps if step.steps == 1 and step.cpu and step.backward > 0]
    if len(single) < STEPS_AT_LEAST or queued < QUEUED * sum(step.wall * step.steps for step in steps):
        return 0.0
    pairs = list(combinations(single, 2))
    both = sum((a.compute - b.compute) * (a.backward - b.backward) > 0 for a, b in pairs)
    if both > TOGETHER * len(pairs) or any(step.exchange for step in steps):
        return 0.0
    used = [step.cpu for step in single if step.cpu]
    return max(0.0, 1 - quantiles(used, n=10)[0] / fmean(used))
