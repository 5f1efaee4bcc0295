"""What happened when in a run: warm-up, phases, evaluation, checkpoints, and the windows of instruments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate, pairwise

from ..model.diagnosis import Diagnosis, Step
from ..model.loops import Loop
from ..model.picture import Mark
from .whole import evaluations_of

MARKS_AT_MOST = 200  # of one kind
PIXELS = 1000  # marks of one kind that are no further apart than one of these are one


def marks_of(diagnosis: Diagnosis, steps: list[Step]) -> list[Mark]:
    """All marks, by kind and then by time. ``steps`` are all rows of the loop."""
    pixel = diagnosis.profile.run.duration_s / PIXELS
    return [
        *_warmup(diagnosis, steps),
        *_phases(diagnosis, steps),
        *_joined(_evaluations(diagnosis), pixel),
        *_joined(_checkpoints(diagnosis), pixel),
        *(
            Mark("instrument", max(0.0, one.start_s), max(0.0, one.end_s), one.instrument)
            for one in diagnosis.profile.windows
        ),
    ]


def _begin(step: Step) -> float:
    """When a row begins, evaluation in its midst apart."""
    return max(0.0, step.t - step.wall * step.steps)


def _warmup(diagnosis: Diagnosis, steps: list[Step]) -> list[Mark]:
    """The steps before the steady window; they end with the last row that is not in it."""
    before = [
        step
        for step, seen in zip(steps, accumulate(step.steps for step in steps), strict=True)
        if seen <= diagnosis.quality.warmup_steps
    ]
    return [Mark("warm-up", _begin(before[0]), before[-1].t)] if before else []


def _phases(diagnosis: Diagnosis, steps: list[Step]) -> list[Mark]:
    """The phases in time. They count the steps that were not set aside; the reported one is known exactly."""
    loop = diagnosis.loop
    flags = loop.table.set_aside if loop is not None else [""] * len(steps)
    seen, kept = 0, []
    for step, flag in zip(steps, flags, strict=True):
        seen += step.steps
        if seen > diagnosis.quality.warmup_steps and not flag:
            kept.append(step)
    ends = [diagnosis.quality.warmup_steps + end for end in accumulate(step.steps for step in kept)]
    marks = []
    for phase in diagnosis.phases:
        mine = [step for step, end in zip(kept, ends, strict=True) if phase.from_step < end <= phase.to_step]
        mine = diagnosis.steps if phase.label == "steady" else mine
        if mine:
            label = f"{phase.label}: {phase.verdict.bound}"
            marks.append(Mark("phase", _begin(mine[0]), mine[-1].t, label))
    return marks


def _evaluations(diagnosis: Diagnosis) -> list[Mark]:
    loops = evaluations_of(diagnosis.profile, diagnosis.loop, diagnosis.outside)
    return [mark for loop in loops for mark in _passes(loop)]


def _passes(loop: Loop) -> Iterable[Mark]:
    """Each pass of an evaluation loop: it ends with the last row of that pass that is known."""
    begins = loop.epochs.t
    for place, (begin, following) in enumerate(pairwise([*begins, float("inf")])):
        last = bisect_right(loop.table.t, following) - 1
        end = begin + loop.epochs.build_s[place] + loop.epochs.first_wait_s[place]
        if last >= 0 and begin < loop.table.t[last]:
            end = max(end, loop.table.t[last])
        yield Mark("evaluation", max(0.0, begin), max(0.0, end))


def _checkpoints(diagnosis: Diagnosis) -> list[Mark]:
    """The longest checkpoints of the loop's own thread."""
    loop = diagnosis.loop or diagnosis.outside
    if loop is None:
        return []
    return [
        Mark("checkpoint", max(0.0, t), max(0.0, t + length))
        for operation in diagnosis.profile.operations
        if operation.kind == "checkpoint" and (operation.pid, operation.thread) == (loop.pid, loop.thread)
        for t, length in operation.events
    ]


def _joined(marks: list[Mark], pixel: float) -> list[Mark]:
    """Marks that a screen cannot tell apart are one; the longest are kept."""
    found: list[Mark] = []
    for mark in sorted(marks, key=lambda one: one.begin_s):
        if found and mark.begin_s - found[-1].end_s <= pixel:
            last = found[-1]
            found[-1] = Mark(last.kind, last.begin_s, max(last.end_s, mark.end_s), last.label)
        else:
            found.append(mark)
    longest = sorted(found, key=lambda one: one.begin_s - one.end_s)[:MARKS_AT_MOST]
    return sorted(longest, key=lambda one: one.begin_s)
