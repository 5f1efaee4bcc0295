"""Whether a job got slower than its baseline: fails only where the noise between runs cannot explain it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence

from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS, Regression, Repeat
from ..model.report import Report
from .comparable import between, same_batches, samples_per_step
from .repeats import NORMAL_95, Measured, change_between, repeats_to_see, would_see
from .silence import silence

# Where no limit is given. Smaller ones would fail for drifts of the machine that no repeat shows, larger ones
# leave too little room below a regression of 10 %: both rates are in docs/ci.md.
DEFAULT_LIMIT = 0.03
# How far not to trust the part of a step that other programs cost, of its logarithm: a crowded core also has
# cold caches. With 2 % between runs it explains the scatter of a job that so lost up to 73 % of its steps.
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
            return Regression(CANNOT_SAY, limit, *counts, why=f"{why} in {run.name}")
    found, refusal = between(before, after, allowed)
    if refusal:
        return Regression(CANNOT_SAY, limit, *counts, why=refusal, refused=True, differences=found)
    what = "step" if same_batches(before, after) else "sample"
    fair = all(report.quality.uncontended_step is not None for report in (*before, *after))
    sides = [[_measured(report, what, fair) for report in side] for side in (before, after)]
    change = change_between(*sides)
    wanted = max(WANTED, math.expm1(2 * math.log1p(limit)))
    return Regression(
        EXCEEDED if change.low > limit else HOLDS,
        limit,
        *counts,
        what=what,
        base_s=change.base,
        new_s=change.new,
        base_contended=_contended(before) if fair else None,
        new_contended=_contended(after) if fair else None,
        change=change.change,
        low=change.low,
        high=change.high,
        noise=change.noise,
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


def _contended(reports: Sequence[Report]) -> float:
    """The mean share of the step that went to waiting for cores that other programs used."""
    return statistics.fmean(1 - _fair(report) for report in reports)


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
