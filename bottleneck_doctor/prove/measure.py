"""Measures one run of an arm: the mean step over the steps that are compared, the same ones in every arm."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from ..analyse.intervals import ratio_interval
from ..analyse.regression import CORRECTION_ERROR
from ..analyse.repeats import NORMAL_95
from ..analyse.steady import choose_loop
from ..model.profile import Profile
from ..model.proof import Arm, Attempt, ComparedSteps
from ..model.run import Trial
from .fair import left_alone

ENOUGH = 0.8  # of the span: a run that ended earlier compares other steps than the rest did (ours)


def attempt_of(
    arm: Arm,
    outcome: str,
    why: str,
    profile: Profile | None,
    run_s: float,
    memory_bytes: int | None,
    span: ComparedSteps,
) -> Attempt:
    """What one run comes to. A run that did not apply its remedy, or was too short, is not measured."""
    trial = profile.trial if profile is not None else None
    if outcome == "measured":
        outcome, why = _judged(arm, profile, span)
    if outcome != "measured" or profile is None:
        return Attempt(arm.id, outcome, why, run_s=run_s, memory_bytes=memory_bytes, trial=trial)
    ends, walls, times = _rows(profile)
    end = min(span.end, int(ends[-1]))
    steps = end - span.begin
    step_s = (_at(end, ends, walls) - _at(span.begin, ends, walls)) / steps
    whole_s = (_at(end, ends, times) - _at(span.begin, ends, times)) / steps
    fair_s, fair_error = _fair(profile, span, step_s)
    return Attempt(
        arm=arm.id,
        outcome=outcome,
        step_s=step_s,
        whole_s=max(whole_s, step_s),
        error=_error(ends, walls, span.begin, end),
        fair_s=fair_s,
        fair_error=fair_error,
        steps=steps,
        run_s=run_s,
        memory_bytes=memory_bytes,
        trial=trial,
    )


def _fair(profile: Profile, span: ComparedSteps, step_s: float) -> tuple[float | None, float]:
    """The step without other programs' part, and its error: the more was taken off, the less sure it is."""
    left = left_alone(profile, span)
    if left is None or not left.value or left.low is None or left.high is None or step_s <= 0:
        return None, 0.0
    value = min(left.value, step_s)
    within = (left.high - left.low) / 2 / NORMAL_95 / left.value
    return value, math.hypot(within, math.log(step_s / value) * CORRECTION_ERROR)


def _judged(arm: Arm, profile: Profile | None, span: ComparedSteps) -> tuple[str, str]:
    """Whether there is something to measure, and why not."""
    if profile is None:
        return "broke", "it left no profile"
    missing = unapplied(arm, profile.trial)
    if missing:
        return "not-applied", missing
    ends, _, _ = _rows(profile)
    if len(ends) < 2 or ends[-1] < span.begin + ENOUGH * (span.end - span.begin):
        return "too-short", f"it ended after {int(ends[-1])} steps, and {span.end} are compared"
    return "measured", ""


def unapplied(arm: Arm, trial: Trial | None) -> str:
    """Why a remedy of the arm was not applied in any process; "" where each was in one at least."""
    told = trial.treated if trial is not None else []
    for name in dict.fromkeys(one.name for one in arm.treatments):
        mine = [one for one in told if one.name == name]
        if not any(one.why == "" for one in mine):
            return next((one.why for one in mine), f"nothing was seen to which {name} applies")
    return ""


def _rows(profile: Profile) -> tuple[list[float], list[float], list[float]]:
    """Of the training loop: steps, seconds within steps, and seconds on the clock, up to the end of each row;
    all begin with the beginning of the first row."""
    loop, outside = choose_loop(profile)
    table = loop.table if loop is not None else outside
    if table is None or not table.t:
        return [0.0], [0.0], [0.0]
    steps = [float(max(1, count)) for count in table.steps]
    begin = table.t[0] - table.wall_s[0]
    return (
        list(accumulate(steps, initial=0.0)),
        list(accumulate(table.wall_s, initial=0.0)),
        [0.0, *(t - begin for t in table.t)],
    )


def _at(step: float, ends: Sequence[float], sums: Sequence[float]) -> float:
    """A sum as it was after so many steps; within a row of several, in proportion."""
    place = min(max(1, bisect_left(ends, step)), len(ends) - 1)
    first, last = ends[place - 1], ends[place]
    share = (step - first) / (last - first)
    return sums[place - 1] + share * (sums[place] - sums[place - 1])


def _error(ends: Sequence[float], walls: Sequence[float], begin: int, end: int) -> float:
    """The standard error of the mean step within this run, as a share of it."""
    places = [place for place in range(1, len(ends)) if ends[place - 1] >= begin and ends[place] <= end]
    counts = [ends[place] - ends[place - 1] for place in places]
    value, low, high = ratio_interval([walls[place] - walls[place - 1] for place in places], counts)
    return (high - low) / 2 / NORMAL_95 / value if value > 0 else 0.0
