"""The CI gate: compares reports with thresholds and a baseline, or reports why it cannot."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ..model.codec import fields_of
from ..model.report import (
    CANNOT_SAY,
    EXCEEDED,
    HOLDS,
    Checked,
    Condition,
    Gate,
    Judgement,
    Outcome,
    Regression,
    Repeat,
    Report,
)
from .compare import between, holds, same_batches, samples_per_step
from .verdict import SECONDS_AT_LEAST, STEPS_AT_LEAST

# Taken once per run, however few its steps.
NOT_PER_STEP = frozenset({"startup_s"})


def silence(name: str, report: Report) -> str:
    """Why the metric cannot be judged; empty where it can."""
    metric = report.metrics.get(name)
    if metric is None or metric.value is None or not math.isfinite(metric.value):
        return f"{name} was not measured{f': {metric.source}' if metric and metric.source else ''}"
    # An inconclusive verdict has other reasons than few steps, too; then a metric may be well measured.
    if name not in NOT_PER_STEP and report.verdict.bound == "inconclusive":
        steps, step = report.quality.steady_steps, report.metrics.get("step_time_s")
        seconds = steps * step.value if step and step.value is not None else math.inf
        if steps < STEPS_AT_LEAST or seconds < SECONDS_AT_LEAST:
            return report.verdict.summary or f"too few steps for {name}, {steps} steady ones"
    return ""


# Of the standard deviation of log step times between runs: what unchanged jobs showed on a machine that had
# nothing else to do, rounded up (docs/ci.md, measured by `python -m tests.bench.repeats`).
BELIEVED = 0.02
BELIEVED_WORTH = 4.0
# One-sided 95 %: the lower end of a 90 % interval, and the power that "would be seen" promises.
NORMAL_95 = 1.6449
MOST_REPEATS = 20


@dataclass(frozen=True)
class Measured:
    """One run: its value, and how far within-run noise alone may have moved it, as a share of the value."""

    value: float
    error: float


@dataclass(frozen=True)
class MeasuredChange:
    """From ``base`` to ``new``; ``change`` is new / base - 1 with its 90 % interval.

    ``noise``: the standard deviation between runs, as a share; ``spread`` that of the change itself, in
    logarithms, with ``freedom`` degrees.
    """

    base: float
    new: float
    change: float
    low: float
    high: float
    noise: float
    spread: float
    freedom: float


def change_between(base: Sequence[Measured], new: Sequence[Measured]) -> MeasuredChange:
    """The change of the geometric mean from one side to the other; each side has at least one run.

    Runs are weighted by their own error: a disturbed one neither moves the mean nor hides a change.
    """
    assert base and new and all(run.value > 0 for run in (*base, *new))
    noise, freedom = _between(base, new)
    (before, unsure), (after, unsure_too) = (_mean(side, noise) for side in (base, new))
    moved, spread = after - before, math.sqrt(unsure + unsure_too)
    reach = quantile_95(freedom) * spread
    change, low, high = (math.expm1(end) for end in (moved, moved - reach, moved + reach))
    return MeasuredChange(math.exp(before), math.exp(after), change, low, high, noise, spread, freedom)


def would_see(spread: float, freedom: float, limit: float) -> float:
    """The smallest true change that is beyond ``limit`` in 95 of 100 tries, given the noise of a change."""
    return math.expm1(math.log1p(limit) + 2 * quantile_95(freedom) * spread)


def repeats_to_see(
    wanted: float, limit: float, base: Sequence[Measured], new: Sequence[Measured]
) -> int | None:
    """How many runs a side would show a true change of ``wanted``; None when ``MOST_REPEATS`` would not."""
    noise = change_between(base, new).noise
    both = sum(_mean(side, noise)[1] * len(side) for side in (base, new))
    for count in range(1, MOST_REPEATS + 1):
        freedom = BELIEVED_WORTH + 2 * (count - 1)
        if would_see(math.sqrt(both / count), freedom, limit) <= wanted:
            return count
    return None


def quantile_95(freedom: float) -> float:
    """The 95 % quantile of Student's t by its expansion about the normal; good to 0.003 from 4 degrees on."""
    z = NORMAL_95
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (place + 1) for place, term in enumerate(terms))


def _between(base: Sequence[Measured], new: Sequence[Measured]) -> tuple[float, float]:
    """The noise between runs in addition to the noise within them, and the estimate's degrees of freedom.

    By moments, as DerSimonian and Laird (1986) do for studies of unequal precision.
    """
    shown = room = 0.0
    for side in (base, new):
        weights = [1 / (BELIEVED**2 + run.error**2) for run in side]
        whole, mean = sum(weights), _weighted(side, weights)
        squares = sum(w * (math.log(run.value) - mean) ** 2 for w, run in zip(weights, side, strict=True))
        explained = sum(w * (1 - w / whole) * run.error**2 for w, run in zip(weights, side, strict=True))
        shown += squares - explained
        room += whole - sum(w * w for w in weights) / whole
    freedom = len(base) + len(new) - 2
    variance = max(0.0, shown) / room if freedom else 0.0
    total = BELIEVED_WORTH + freedom
    return math.sqrt((BELIEVED_WORTH * BELIEVED**2 + freedom * variance) / total), total


def _mean(side: Sequence[Measured], noise: float) -> tuple[float, float]:
    """The mean of a side's logarithms and the variance of that mean."""
    weights = [1 / (noise**2 + run.error**2) for run in side]
    return _weighted(side, weights), 1 / sum(weights)


def _weighted(side: Sequence[Measured], weights: list[float]) -> float:
    return sum(w * math.log(run.value) for w, run in zip(weights, side, strict=True)) / sum(weights)


# Where no limit is given. Smaller ones would fail for drifts of the machine that no repeat shows, larger ones
# leave too little room below a regression of 10 %: both rates are in docs/ci.md.
DEFAULT_LIMIT = 0.03
# Error of the correction for other programs' part of a step, as a share of its logarithm: a shared core also
# has cold caches. With 2 % between runs it explains the scatter of a job that lost up to 73 % of its steps.
CORRECTION_ERROR = 0.03
# A gate should see a regression of a tenth, or of twice what it tolerates where that is more.
WANTED = 0.10


def compare_runs(
    base: Sequence[Repeat], new: Sequence[Repeat], limit: float, allowed: Collection[str] = ()
) -> Regression:
    """The new runs against the baseline's, both repeats of one job; ``limit`` is the share tolerated.

    ``allowed`` names differences that do not refuse the comparison. Where batches differ in size, and their
    sizes are known, the time per sample is compared. Time that every run of both sides is known to have lost
    to other programs on the machine is left out: it says nothing of the job.
    """
    before, after = ([run.report for run in side] for side in (base, new))
    counts = (len(base), len(new))
    for run in (*base, *new):
        why = _silence(run.report)
        if why:
            return Regression(CANNOT_SAY, limit, *counts, why=f"{run.name}: {why}")
    found, refusal = between(before, after, allowed)
    if refusal:
        return Regression(CANNOT_SAY, limit, *counts, why=refusal, refused=True, differences=found)
    what = "step" if same_batches(before, after) else "sample"
    fair = all(report.quality.uncontended_step is not None for report in (*before, *after))
    sides = [[_measured(report, what, fair) for report in side] for side in (before, after)]
    change, wanted = change_between(*sides), max(WANTED, math.expm1(2 * math.log1p(limit)))
    contended = [
        statistics.fmean(1 - _fair(report) for report in side) if fair else None for side in (before, after)
    ]
    return Regression(
        EXCEEDED if change.low > limit else HOLDS,
        limit,
        *counts,
        what=what,
        base_s=change.base,
        new_s=change.new,
        base_contended=contended[0],
        new_contended=contended[1],
        **fields_of(change, Regression),
        assumed=max(counts) == 1,
        sees=would_see(change.spread, change.freedom, limit),
        wanted=wanted,
        repeats=repeats_to_see(wanted, limit, *sides),
        differences=found,
    )


def _silence(report: Report) -> str:
    why = silence("step_time_s", report)
    metric = report.metrics.get("step_time_s")
    if why or metric is None or metric.value is None:
        return why
    if metric.value <= 0:
        return "the step time is zero"
    left = report.quality.uncontended_step
    if left is not None and left.value is None:
        return left.source
    return "the step time has no interval" if metric.low is None or metric.high is None else ""


def _fair(report: Report) -> float:
    """What is left of the step once other programs' part is out, as a share above 0."""
    whole, left = report.metrics["step_time_s"].value, report.quality.uncontended_step
    if not whole or left is None or not left.value:
        return 1.0
    return min(1.0, left.value / whole)


def _measured(report: Report, what: str, fair: bool) -> Measured:
    """Seconds per step or per sample, and their error within the run as a share."""
    left = report.quality.uncontended_step
    metric = left if fair and left is not None and left.value else report.metrics["step_time_s"]
    assert metric.value and metric.low is not None and metric.high is not None
    samples = samples_per_step(report) if what == "sample" else 1.0
    error = (metric.high - metric.low) / 2 / NORMAL_95 / metric.value
    doubt = -math.log(_fair(report)) * CORRECTION_ERROR if fair else 0.0
    return Measured(metric.value / (samples or 1.0), math.hypot(error, doubt))


def check(
    runs: Sequence[Repeat],
    conditions: Sequence[Condition],
    base: Sequence[Repeat] = (),
    limit: float = 0.0,
    allowed: Collection[str] = (),
) -> Gate:
    """Every run against the conditions on its own; all of them, as repeats, against the baseline's runs.

    ``limit``: the share by which a step may get slower. ``allowed``: differences that refuse no comparison.
    """
    checked = [Checked(run.name, run.report, judge(run.report, conditions)) for run in runs]
    regression = compare_runs(base, runs, limit, allowed) if base else None
    statuses = [one.outcome.status for one in checked] + ([regression.status] if regression else [])
    return Gate(worst(statuses), checked, regression)


def judge(report: Report, conditions: Sequence[Condition]) -> Outcome:
    """Every condition against the report. A failed one outweighs an unknown one, which outweighs a pass."""
    judgements = [_judged(report, condition) for condition in conditions]
    return Outcome(worst(judgement.status for judgement in judgements), judgements)


def worst(statuses: Iterable[int]) -> int:
    """The exit status of several outcomes together."""
    seen = set(statuses)
    return next((status for status in (EXCEEDED, CANNOT_SAY) if status in seen), HOLDS)


def _judged(report: Report, condition: Condition) -> Judgement:
    metric = report.metrics.get(condition.metric)
    why = silence(condition.metric, report)
    if why:
        value, n = (metric.value, metric.n) if metric else (None, 0)
        return Judgement(condition, CANNOT_SAY, value, n=n, why=why)
    assert metric is not None and metric.value is not None
    failed = holds(metric.value, condition)
    close = any(holds(end, condition) != failed for end in (metric.low, metric.high) if end is not None)
    status = EXCEEDED if failed else HOLDS
    return Judgement(condition, status, metric.value, metric.low, metric.high, metric.n, close)
