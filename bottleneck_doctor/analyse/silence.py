"""When a metric of a report says nothing: it was not measured, or too few steps were seen."""

from __future__ import annotations

import math

from ..model.report import Report
from .verdict import SECONDS_AT_LEAST, STEPS_AT_LEAST

# Taken once per run, however few its steps.
NOT_PER_STEP = frozenset({"startup_s"})


def silence(name: str, report: Report) -> str:
    """Why nothing can be said of the metric; empty when something can."""
    metric = report.metrics.get(name)
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
