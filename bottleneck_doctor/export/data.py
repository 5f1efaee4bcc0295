"""What of a report is sent, made once for all targets: numbers, and the verdict's words."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from .. import __version__
from ..model.report import Metric, Report

TEXT_AT_MOST = 1000  # characters; MLflow refuses more than 5000


@dataclass(frozen=True)
class Value:
    """A number of the report: ``bdoc.step_time_s``, or of several of a name the one with these ``labels``.

    ``end`` is "low" or "high" where it is an end of the 90 % interval. ``about`` says which field of the
    report it is, in the same words for every run: Prometheus refuses a metric that is described in two ways.
    """

    name: str
    value: float
    unit: str
    about: str
    labels: dict[str, str]
    end: str = ""

    @property
    def family(self) -> str:
        """The name that it shares with those of other labels."""
        return f"{self.name}.{self.end}" if self.end else self.name

    @property
    def path(self) -> str:
        """A name that nothing else has, for targets without labels."""
        return ".".join(filter(None, (self.name, *self.labels.values(), self.end)))


@dataclass(frozen=True)
class ExportData:
    """All that is sent. ``verdict`` has few and short words, fit for labels, ``run`` the longer ones; the run
    began and ended at nanoseconds since 1970; ``page`` is the report as HTML."""

    values: list[Value]
    verdict: dict[str, str]
    run: dict[str, str]
    begin_ns: int
    end_ns: int
    page: str = ""


def export_data(report: Report, page: str = "") -> ExportData:
    """What is sent of a report. What was not measured is left out, never zero."""
    run, verdict = report.run, report.verdict
    begin_ns = int(datetime.fromisoformat(run.started_at.replace("Z", "+00:00")).timestamp() * 1e9)
    first = next((one.id for one in report.remedies if one.predicted_speedup.reach >= 1), "")
    texts = {
        "script": run.script, "command": shlex.join(run.command), "host": run.host, "python": run.python,
        "torch": run.torch, "started_at": run.started_at, "summary": verdict.summary, "version": __version__,
    }  # fmt: skip
    return ExportData(
        list(_values(report)),
        {"bound": verdict.bound, "cause": verdict.cause, "confidence": verdict.confidence, "remedy": first},
        {name: text[:TEXT_AT_MOST] for name, text in texts.items() if text},
        begin_ns,
        begin_ns + int(run.duration_s * 1e9),
        page,
    )


def _values(report: Report) -> Iterator[Value]:
    for name, metric in report.metrics.items():
        yield from _measured(name, f"metrics.{name}.value", metric)
    for resource, gain in report.verdict.gain.items():
        yield from _measured("gain", "verdict.gain", Metric(gain, "ratio"), {"resource": resource})
    for remedy in report.remedies:
        predicted = remedy.predicted_speedup
        speedup = Metric(predicted.likely, "ratio", predicted.low, predicted.high)
        field = "remedies.predicted_speedup.likely"
        yield from _measured("remedy_speedup", field, speedup, {"remedy": remedy.id})
    yield from _measured("run_duration_s", "run.duration_s", Metric(report.run.duration_s, "s"))
    yield from _measured("run_exit_status", "run.exit_status", Metric(report.run.exit_status, "status"))


def _measured(name: str, field: str, metric: Metric, labels: dict[str, str] | None = None) -> Iterator[Value]:
    """The value of a ``field``, then the ends of its interval; nothing where it was not measured."""
    if metric.value is None:
        return
    record = field.rpartition(".")[0]
    for end, value in (("", metric.value), ("low", metric.low), ("high", metric.high)):
        if value is not None:
            about = f"{f'{record}.{end}' if end else field} of bdoc's report, {metric.unit}"
            yield Value(f"bdoc.{name}", float(value), metric.unit, about, labels or {}, end)
