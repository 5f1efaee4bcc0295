"""The CI gate: holds reports against thresholds and a baseline, and knows when it cannot say."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..model.errors import UsageError as UsageError
from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS, Checked, Condition, Gate, Judgement, Outcome, Repeat
from ..model.report import Report
from .conditions import METRIC_NAMES as METRIC_NAMES
from .conditions import data_wait_condition as data_wait_condition
from .conditions import holds
from .conditions import parse_condition as parse_condition
from .conditions import parse_fraction as parse_fraction
from .conditions import refuse_contradictions as refuse_contradictions
from .regression import compare_runs
from .silence import silence


def known_metrics(reports: Iterable[Report]) -> list[str]:
    """The names that a condition may use: those always present, and what these reports hold."""
    names = dict.fromkeys(METRIC_NAMES)
    for report in reports:
        names.update(dict.fromkeys(report.metrics))
    return list(names)


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
    """Every condition against the report. An excess outweighs ignorance, ignorance outweighs a pass."""
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
    ends = [end for end in (metric.low, metric.high) if end is not None]
    close = any(holds(end, condition) != failed for end in ends)
    status = EXCEEDED if failed else HOLDS
    return Judgement(condition, status, metric.value, metric.low, metric.high, metric.n, close)
