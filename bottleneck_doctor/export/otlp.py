"""OpenTelemetry, OTLP over HTTP: gauges, and a trace of the run and its stretches."""

from __future__ import annotations

import logging

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import set_span_in_context

from .. import __version__
from .data import ExportData

ANSWER_S = 5.0
UNITS = {"s": "s", "1/s": "1/s"}  # UCUM; all else has no dimension: "1"
SEMANTIC = {"host": "host.name", "command": "process.command_line", "python": "process.runtime.version"}


def carry(address: str, data: ExportData) -> str:
    """Send metrics and a trace to the collector at ``address``. Raises ``OSError`` where it refuses them."""
    named = {SEMANTIC.get(name, f"bdoc.{name}"): word for name, word in data.run.items()}
    # What the user's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes before.
    resource = Resource({"service.name": "bdoc", **named}).merge(OTELResourceDetector().detect())
    heard = _Heard()
    logging.getLogger("opentelemetry").addHandler(heard)
    base = address.rstrip("/")
    metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=ANSWER_S)
    spans = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=ANSWER_S)
    taken = metrics.export(_metrics(data, resource)).name == "SUCCESS"
    if not taken or spans.export(_spans(data, resource)).name != "SUCCESS":
        raise OSError(heard.first or "the collector did not take it")
    return ""


class _Heard(logging.Handler):
    """The exporters tell why they failed in their log only."""

    first = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first: later ones say that there were no more tries."""
        self.first = self.first or record.getMessage()


def _metrics(data: ExportData, resource: Resource) -> MetricsData | None:
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], resource).get_meter("bdoc", __version__)
    for one in data.values:
        meter.create_gauge(one.family, UNITS.get(one.unit, "1"), one.about).set(one.value, one.labels)
    info = meter.create_gauge("bdoc.verdict_info", "1", "verdict of bdoc's report")
    info.set(1, data.verdict)
    return reader.get_metrics_data()


def _spans(data: ExportData, resource: Resource) -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("bdoc", __version__)
    said = {f"bdoc.verdict.{name}": word for name, word in data.verdict.items()}
    whole = tracer.start_span("run", attributes=said, start_time=data.whole.begin_ns)
    within = set_span_in_context(whole)
    for one in data.stretches:
        told = {"bdoc.label": one.label}
        tracer.start_span(one.name, within, attributes=told, start_time=one.begin_ns).end(one.end_ns)
    whole.end(data.whole.end_ns)
    return list(memory.get_finished_spans())
