"""A running job as one JSON object on one line, for programs."""

from __future__ import annotations

import json
from typing import Any

from ..model.live import SCHEMA, SCHEMA_VERSION, LiveView
from ..model.report import Remedy, Report
from .watch import best_of


def record(look: LiveView, report: Report | None) -> str:
    """One JSON object on one line, unrounded: the keys of the report's metrics, null when not measured."""
    around, best = look.around, best_of(report)
    busy = around.gpu_busy
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "state": look.state,
        "pid": look.announcement.supervisor.pid,
        "command": look.announcement.command,
        "elapsed_s": look.elapsed_s,
        "steps": look.steps,
        "trained_steps": look.trained,
        "ranks": look.ranks,
        "step_time_s": look.now.step_s,
        "steps_per_s": 1 / look.now.step_s if look.now.step_s else None,
        "data_wait_fraction": look.now.wait_share,
        "cores": around.cores,
        "job_cores": around.job_cores,
        "foreign_cores": around.foreign_cores,
        "cpu_busy_fraction": _share_of(around.job_cores, around.cores),
        "gpu_busy_fraction": sum(busy) / len(busy) if busy else None,
        "gpu_memory_fraction": max(around.gpu_memory, default=None),
        "pressure": around.pressure,
        "verdict": _verdict_record(report),
        "remedy": _remedy_record(best) if best is not None else None,
        "exit_status": look.ending.exit_status if look.ending else None,
        "profile": look.profile,
    }
    return json.dumps(values) + "\n"


def _share_of(part: float | None, whole: float | None) -> float | None:
    return min(1.0, part / whole) if part is not None and whole else None


def _verdict_record(report: Report | None) -> dict[str, Any] | None:
    if report is None:
        return None
    verdict = report.verdict
    return {
        "bound": verdict.bound,
        "cause": verdict.cause,
        "summary": verdict.summary,
        "confidence": verdict.confidence,
        "steady_steps": report.quality.steady_steps,
    }


def _remedy_record(best: Remedy) -> dict[str, Any]:
    speedup = best.predicted_speedup
    return {
        "id": best.id,
        "title": best.title,
        "predicted_speedup": {"low": speedup.low, "likely": speedup.likely, "high": speedup.high},
    }
