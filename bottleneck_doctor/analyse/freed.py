"""Finds what letting go of the batch before costs the line that asks for the next one."""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Step
from ..model.loops import Loop
from ..model.profile import Profile
from .evaluated import find_evaluated
from .logged import TIMED
from .loop_parts import training_samples
from .split import SAMPLES_AT_LEAST

FEWEST = 3  # samples, below which they may be torn (ours)


def with_freed(profile: Profile, loop: Loop | None, steps: list[Step]) -> list[Step]:
    """The steps with the time in which that line frees the last batch as part of getting one.

    ``for x in loader`` binds the new batch and drops the old: shared memory of workers is unmapped, behind
    the hook on ``next``. A stopwatch around the line counts it. Samples in the line itself, of all that no
    hook times, tell its share.
    """
    if loop is None or not loop.loader or loop.thread != 0 or loop.body is None:
        return steps
    samples = find_evaluated(profile, loop, None).without(training_samples(profile, loop.pid, loop.body))
    asking = {one.line for one in samples if one.part == "data"}
    others = [one for one in samples if one.part not in ("data", *TIMED)]
    freeing = sum(one.stack.count for one in others if one.part == "line" and one.line in asking)
    total = sum(one.stack.count for one in others)
    if freeing < FEWEST or total < SAMPLES_AT_LEAST:
        return steps
    return [_freed(step, freeing / total) for step in steps]


def _freed(step: Step, share: float) -> Step:
    own, moved = step.wall - step.wait, share * step.compute
    step = replace(step, wait=step.wait + moved, compute=step.compute - moved)
    if step.cpu is None or step.wait_cpu is None or own <= 0:
        return step
    spent = step.cpu * moved / own
    return replace(step, cpu=step.cpu - spent, wait_cpu=step.wait_cpu + spent)
