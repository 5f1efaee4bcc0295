"""The CI gate: holds a report against thresholds and a baseline, and knows when it cannot say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..model.outcome import CANNOT_SAY, EXCEEDED, HOLDS, Condition, Judgement, Outcome, Regression
from ..model.refusal import UsageError as UsageError
from ..model.report import Metric, Report
from .conditions import METRIC_NAMES as METRIC_NAMES
from .conditions import data_wait_condition as data_wait_condition
from .conditions import holds
from .conditions import parse_condition as parse_condition
from .conditions import parse_fraction as parse_fraction
from .conditions import refuse_contradictions as refuse_contradictions
from .verdict import SECONDS_AT_LEAST, STEPS_AT_LEAST

# Taken once per run, however few its steps.
NOT_PER_STEP = frozenset({"startup_s"})


def known_metrics(reports: Iterable[Report]) -> list[str]:
    """The names that a condition may use: those always present, and what these reports hold."""
    names = dict.fromkeys(METRIC_NAMES)
    for report in reports:
        names.update(dict.fromkeys(report.metrics))
    return list(names)


def judge(report: Report, conditions: Sequence[Condition], regression: Regression | None = None) -> Outcome:
    """Every condition against the report. An excess outweighs ignorance, ignorance outweighs a pass."""
    judgements = [_judged(report, condition) for condition in conditions]
    statuses = [judgement.status for judgement in judgements]
    statuses += [regression.status] if regression else []
    return Outcome(worst(statuses), judgements, regression)


def worst(statuses: Iterable[int]) -> int:
    """The exit status of several outcomes together."""
    seen = set(statuses)
    return next((status for status in (EXCEEDED, CANNOT_SAY) if status in seen), HOLDS)


def compare_step_time(base: Report, new: Report, limit: float) -> Regression:
    """Whether the step got slower than the baseline's by more than ``limit``, beyond both intervals."""
    before, after = base.metrics.get("step_time_s"), new.metrics.get("step_time_s")
    for metric, report, whose in ((before, base, "the baseline"), (after, new, "this run")):
        why = _silence("step_time_s", metric, report)
        if why:
            return Regression(CANNOT_SAY, limit, _value(before), _value(after), why=f"{why} in {whose}")
    assert before is not None and before.value is not None and after is not None and after.value is not None
    if before.value <= 0 or None in (before.low, before.high, after.low, after.high):
        return Regression(CANNOT_SAY, limit, before.value, after.value, why="the step time has no interval")
    change = after.value / before.value - 1
    low, high = _change_interval(before, after)
    exceeded = change > limit and low > limit
    return Regression(EXCEEDED if exceeded else HOLDS, limit, before.value, after.value, change, low, high)


def _judged(report: Report, condition: Condition) -> Judgement:
    metric = report.metrics.get(condition.metric)
    why = _silence(condition.metric, metric, report)
    if why:
        n = metric.n if metric else 0
        return Judgement(condition, CANNOT_SAY, _value(metric), n=n, why=why)
    assert metric is not None and metric.value is not None
    failed = holds(metric.value, condition)
    ends = [end for end in (metric.low, metric.high) if end is not None]
    close = any(holds(end, condition) != failed for end in ends)
    status = EXCEEDED if failed else HOLDS
    return Judgement(condition, status, metric.value, metric.low, metric.high, metric.n, close)


def _silence(name: str, metric: Metric | None, report: Report) -> str:
    """Why nothing can be said of the metric; empty when something can."""
    if metric is None or metric.value is None or not math.isfinite(metric.value):
        return f"{name} was not measured{f': {metric.source}' if metric and metric.source else ''}"
    if name not in NOT_PER_STEP and _saw_too_little(report):
        return f"too few steps for {name}, {report.quality.steady_steps} steady ones"
    return ""


def _saw_too_little(report: Report) -> bool:
    """Whether the verdict is out for want of steps; for other reasons a metric may still be well measured."""
    if report.verdict.bound != "inconclusive":
        return False
    step = report.metrics.get("step_time_s")
    seconds = report.quality.steady_steps * step.value if step and step.value is not None else math.inf
    return report.quality.steady_steps < STEPS_AT_LEAST or seconds < SECONDS_AT_LEAST


def _change_interval(before: Metric, after: Metric) -> tuple[float, float]:
    """The 90 % interval of new / base - 1, the two runs being independent."""
    assert before.value and after.value is not None
    assert before.low is not None and before.high is not None
    assert after.low is not None and after.high is not None
    quotient = after.value / before.value
    # First order: the quotient's relative error is that of both step times together.
    down = math.hypot(after.value - after.low, quotient * (before.high - before.value)) / before.value
    up = math.hypot(after.high - after.value, quotient * (before.value - before.low)) / before.value
    return quotient - 1 - down, quotient - 1 + up


def _value(metric: Metric | None) -> float | None:
    return metric.value if metric else None
