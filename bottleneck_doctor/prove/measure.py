"""Measures one run of an arm: the mean step over the steps that are compared, the same ones in every arm."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from ..analyse.attribution import attribute
from ..analyse.gate import CORRECTION_ERROR, NORMAL_95
from ..analyse.host import measure_host, uncontended
from ..analyse.inputs import measure_inputs, steady_fetches
from ..analyse.loop_without_loader import judge_gap, with_waits
from ..analyse.steady import WARMUP_SHARE, choose_loop, loader_of, steps_of
from ..analyse.steps import ratio_interval
from ..model.diagnosis import Diagnosis, Step
from ..model.profile import Profile
from ..model.proof import Arm, Attempt, ComparedSteps
from ..model.report import Metric
from ..model.run import Trial
from .plan import BELIEVED
from .trial_limits import first_batch_s, steps_table
from .trials import Finished


def uncontended_step(profile: Profile, span: ComparedSteps) -> Metric | None:
    """Seconds per step as if other programs had left the cores alone; None where that was not measured.

    The same measure as the gate's: a run that shared its cores with another job is not slower for it.
    """
    loop = choose_loop(profile)
    loader = loader_of(profile, loop)
    if loop is not None and not loop.loader:
        loop = with_waits(profile, loop, judge_gap(profile, loop))
        loop = attribute(profile, loop).evaluated.set_aside(loop)
    every = steps_of(loop.table) if loop is not None else []
    steps = _within(every, span)
    if not steps:
        return None
    workers = loader.num_workers if loader is not None else 0
    table = steady_fetches(profile, loop, loader)
    begin, end = steps[0].t - steps[0].wall, steps[-1].t
    inputs = measure_inputs(profile, table, begin, end, workers)
    return uncontended(steps, inputs, workers, measure_host(profile, begin, end, None))


def _within(steps: list[Step], span: ComparedSteps) -> list[Step]:
    seen, kept = 0, []
    for step in steps:
        if span.begin <= seen and seen + step.steps <= span.end:
            kept.append(step)
        seen += step.steps
    return kept


LEAST = 60  # steady steps
LEAST_S = 2.0  # of them: shorter ones are lost in what a machine does now and then (chosen)
# Of the fastest arm's, by its prediction: its first half second is not like the rest (chosen).
TREATED_S = 1.0
AT_MOST = 0.75  # of the steps that were watched: two rounds of three arms then fit into ten first runs
WARMUP = 10  # steps [analyse/steady.WARMUP_STEPS]
NOTED = 40  # the first steps, whose losses and batches are noted [agent/trial/losses], are left out
NOTED_S = 2.0  # where they take no longer than this
FED_FROM = 18  # the ceiling's loop is fed from memory after 16 batches [agent/trial/from_memory.BATCHES]
SHORT = 2.0  # epochs no longer than so many times the steps needed are compared whole (chosen)


def span_of(diagnosis: Diagnosis, arms: Sequence[Arm], max_steps: int | None = None) -> ComparedSteps:
    """The span for runs of these arms; none trains more than ``max_steps``.

    Queues that are full at the start make the first steps cheap: what a treated loader may hold is warm-up.
    """
    wanted, cycle = _wanted(diagnosis, arms), _cycle(diagnosis)
    if any(arm.scope == "run" for arm in arms):
        cycle, wanted = _evaluations_apart(diagnosis), max(wanted, _evaluations_apart(diagnosis))
    if 0 < cycle <= SHORT * wanted:
        wanted = math.ceil(wanted / cycle) * cycle
    fed = [FED_FROM for arm in arms if arm.kind == "ceiling"]
    noted = NOTED if NOTED * diagnosis.step_s <= NOTED_S else 0
    begin = max([WARMUP, noted, *fed, *(2 * _slots(diagnosis, arm) for arm in arms)])
    table, most = steps_table(diagnosis), max_steps or 1 << 62
    if diagnosis.profile.run.stopped_by is None and table is not None:  # that is the whole training
        most = min(most, sum(table.steps))
    if begin + wanted > most:  # a short training: rather less warm-up than no steps to compare
        begin = min(begin, int(WARMUP_SHARE * most))
    return ComparedSteps(begin, min(begin + wanted, most))


def _wanted(diagnosis: Diagnosis, arms: Sequence[Arm]) -> int:
    """Steps of a run that tell most for the time: n steps of t after a start of s cost s + n t, and leave the
    noise between runs b, and w / sqrt(n) within; that is least for n = (w / b) sqrt(s / t)."""
    steady, step_s = max(1, diagnosis.quality.steady_steps), max(diagnosis.step_s, 1e-9)
    metric = diagnosis.quality.uncontended_step or diagnosis.metrics.get("step_time_s")
    within = 0.0
    if metric is not None and metric.value and metric.low is not None and metric.high is not None:
        within = (metric.high - metric.low) / 2 / NORMAL_95 / metric.value * math.sqrt(steady)
    best = within / BELIEVED * math.sqrt(first_batch_s(diagnosis) / step_s)
    fastest = max([1.0, *(arm.predicted.reach for arm in arms if arm.predicted is not None)])
    least_s = max(LEAST_S, TREATED_S * fastest)
    return math.ceil(min(max(LEAST, best, least_s / step_s), max(LEAST, AT_MOST * steady)))


def _cycle(diagnosis: Diagnosis) -> int:
    """The steps after which the course of the training repeats: an epoch that was seen whole, or what a
    checkpoint ends; 0 where neither is known."""
    table, loop = steps_table(diagnosis), diagnosis.loop
    if table is None or loop is None:
        return 0
    saves = [
        one.count for one in diagnosis.profile.operations
        if one.kind == "checkpoint" and one.pid == loop.pid and one.count > 1
    ]  # fmt: skip
    apart = round(sum(table.steps) / min(saves)) if saves else 0
    return max([apart, *loop.epochs.batches[:-1]])


def _evaluations_apart(diagnosis: Diagnosis) -> int:
    """Steps from one evaluation to the next: what a remedy saves there shows in whole rounds only."""
    table = steps_table(diagnosis)
    return round(sum(table.steps) / max(1, diagnosis.whole.evaluations)) if table is not None else 0


def _slots(diagnosis: Diagnosis, arm: Arm) -> int:
    """Batches that the loader may hold in advance under an arm."""
    loader = diagnosis.loader
    workers, prefetch = (loader.num_workers, loader.prefetch_factor or 2) if loader is not None else (0, 2)
    for one in arm.treatments:
        if one.name == "loader":
            arguments = one.options.get("arguments", {})
            workers = int(arguments.get("num_workers", workers) or 0)
            prefetch = int(arguments.get("prefetch_factor", prefetch) or 2)
    return workers * prefetch


ENOUGH = 0.8  # of the span: a run that ended earlier compares other steps than the rest did (chosen)


def attempt_of(arm: Arm, done: Finished, span: ComparedSteps) -> Attempt:
    """The measurement of one run; none of a run that did not apply its remedy, or was too short."""
    profile = done.profile
    trial = profile.trial if profile is not None else None
    outcome, why = done.outcome, done.why
    if outcome == "measured":
        outcome, why = _judged(arm, profile, span)
    found = Attempt(arm.id, outcome, why, run_s=done.run_s, memory_bytes=done.memory_bytes, trial=trial)
    if outcome != "measured" or profile is None:
        return found
    ends, walls, times = _rows(profile)
    end = min(span.end, int(ends[-1]))
    steps = end - span.begin
    step_s, whole_s = (
        (_at(end, ends, sums) - _at(span.begin, ends, sums)) / steps for sums in (walls, times)
    )
    fair_s, fair_error = _fair(profile, span, step_s)
    return replace(
        found,
        step_s=step_s,
        whole_s=max(whole_s, step_s),
        error=_error(ends, walls, span.begin, end),
        fair_s=fair_s,
        fair_error=fair_error,
        steps=steps,
    )


def _fair(profile: Profile, span: ComparedSteps, step_s: float) -> tuple[float | None, float]:
    """The step without other programs' part, and its error, which grows with the part taken off."""
    left = uncontended_step(profile, span)
    if left is None or not left.value or left.low is None or left.high is None or step_s <= 0:
        return None, 0.0
    value = min(left.value, step_s)
    within = (left.high - left.low) / 2 / NORMAL_95 / left.value
    return value, math.hypot(within, math.log(step_s / value) * CORRECTION_ERROR)


def _judged(arm: Arm, profile: Profile | None, span: ComparedSteps) -> tuple[str, str]:
    """The outcome of a run, and why it cannot be measured."""
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
    treated = trial.treated if trial is not None else []
    for name in dict.fromkeys(one.name for one in arm.treatments):
        mine = [one for one in treated if one.name == name]
        if not any(one.why == "" for one in mine):
            return next((one.why for one in mine), f"nothing was seen to which {name} applies")
    return ""


def _rows(profile: Profile) -> tuple[list[float], list[float], list[float]]:
    """Of the training loop: steps, seconds within steps, and seconds on the clock, up to the end of each row;
    all begin with the beginning of the first row."""
    loop = choose_loop(profile)
    if loop is None or not loop.table.t:
        return [0.0], [0.0], [0.0]
    table = loop.table
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
