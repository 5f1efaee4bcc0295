"""One function for each kind of target: carries the data to an address, and returns words about where it is.

Each runs in a process of its own and imports its library there. What fails raises.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from .. import __version__
from .data import ExportData

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from prometheus_client import CollectorRegistry

ANSWER_S = 5.0  # for a collector or a gateway
MLFLOW_ANSWER_S = 15  # a small server that has just begun takes more than 5
WANDB_ANSWER_S = 10
UNITS = {"s": "s", "1/s": "1/s"}  # UCUM; all else has no dimension: "1"
SEMANTIC = {"host": "host.name", "command": "process.command_line", "python": "process.runtime.version"}


def mlflow(address: str, data: ExportData) -> str:
    """Log to the tracking server or store at ``address``, else to MLflow's usual one; says which run.

    Of the training's run (MLFLOW_RUN_ID) neither status nor times are touched, which MLflow's own
    ``start_run`` would do.
    """
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", str(MLFLOW_ANSWER_S))
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # of its makers; it also takes seconds
    import mlflow as library
    from mlflow.entities import Metric, RunTag

    if address:
        library.set_tracking_uri(address)
    client = library.MlflowClient()
    begin, end = data.whole.begin_ns // 10**6, data.whole.end_ns // 10**6
    run, own = os.environ.get("MLFLOW_RUN_ID", ""), False
    if not run:
        own, name = True, os.environ.get("MLFLOW_EXPERIMENT_NAME")
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID", "0" if not name else "")
        experiment = experiment or library.set_experiment(name).experiment_id
        run = client.create_run(experiment, begin, run_name=f"bdoc {data.run.get('script', '')}").info.run_id
    try:
        words = {**data.run, **data.verdict}
        client.log_batch(
            run,
            metrics=[Metric(one.path, one.value, end, 0) for one in data.values],
            tags=[RunTag(f"bdoc.{name}", word) for name, word in words.items()],
        )
        client.log_text(run, data.page, "bdoc/report.html")
    except Exception:
        if own:
            client.set_terminated(run, "FAILED", end)
        raise
    if own:
        client.set_terminated(run, end_time=end)
    return f"run {run}"


def wandb(address: str, data: ExportData) -> str:
    """Log to ``ENTITY/PROJECT``, else to W&B's usual ones; says where the run is.

    Never into the training's run, which a second process would write over; its id stands in the config.
    """
    names = ("WANDB_RUN_ID", "WANDB_RESUME", "WANDB_SWEEP_ID")
    training, *_ = (os.environ.pop(name, "") for name in names)
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb as library

    entity, _, project = address.rpartition("/")
    # What W&B finds out itself (source, git, machine, console) is not of the report.
    settings = library.Settings(
        silent=True, console="off", save_code=False, disable_git=True, disable_code=True, x_disable_meta=True,
        x_disable_stats=True, x_disable_machine_info=True, x_save_requirements=False,
        init_timeout=WANDB_ANSWER_S,
    )  # fmt: skip
    with library.init(
        entity=entity or None,
        project=project or None,
        job_type="bdoc",
        settings=settings,
        config={**data.run, **data.verdict, **({"training_run": training} if training else {})},
    ) as run:
        run.log({one.path.replace(".", "/", 1): one.value for one in data.values})
    return str(run.url or os.path.dirname(run.dir))


def tensorboard(address: str, data: ExportData) -> str:
    """Add a file of events, with numbers as 32-bit floats; other files stay. All events are at step 0, at
    the instant of the run's end."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.plugins.text.summary_v2 import text_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    words = {**data.verdict, **data.run}
    table = "\n".join(f"| {name} | `{word}` |" for name, word in words.items())
    writer = EventFileWriter(address)
    for summary in (
        *(scalar_pb(one.path.replace(".", "/", 1), one.value, one.about) for one in data.values),
        text_pb("bdoc/verdict", f"| | |\n|---|---|\n{table}"),
    ):
        writer.add_event(Event(wall_time=data.whole.end_ns / 1e9, step=0, summary=summary))
    writer.close()
    return ""


def prometheus(address: str, data: ExportData) -> str:
    """Replace a file for node-exporter's textfile collector. Its name's stem is the label ``run``: two files
    of one folder may not hold the same series, or the collector refuses both."""
    from prometheus_client import write_to_textfile

    write_to_textfile(address, _registry(data, {"run": Path(address).stem}))
    return ""


def pushgateway(address: str, data: ExportData) -> str:
    """Replace the group of this host and script. Raises ``OSError`` where the gateway does not take it."""
    from prometheus_client import push_to_gateway
    from prometheus_client.exposition import basic_auth_handler, default_handler

    parts = urlsplit(address)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    handler = default_handler
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        handler = partial(basic_auth_handler, username=user, password=password)
    group = {"instance": data.run.get("host", ""), "run": data.run.get("script", "")}
    push_to_gateway(plain, "bdoc", _registry(data, {}), group, ANSWER_S, handler)
    return ""


def _registry(data: ExportData, own: dict[str, str]) -> CollectorRegistry:
    """The values as gauges, the verdict as the labels of a 1; the labels ``own`` stand at each."""
    from prometheus_client import CollectorRegistry, Gauge

    found, families = CollectorRegistry(), dict[str, Gauge]()
    for one in data.values:
        labels = {**own, **one.labels}
        name = one.family.replace(".", "_")
        if name not in families:
            families[name] = Gauge(name, one.about, list(labels), registry=found)
        (families[name].labels(**labels) if labels else families[name]).set(one.value)
    labels = {**own, **data.verdict}
    info = Gauge("bdoc_verdict_info", "verdict of bdoc's report", list(labels), registry=found)
    info.labels(**labels).set(1)
    return found


def otlp(address: str, data: ExportData) -> str:
    """OpenTelemetry (OTLP over HTTP): send gauges, and a trace of the run, to the collector at ``address``.
    Raises ``OSError`` where it refuses them."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    named = {SEMANTIC.get(name, f"bdoc.{name}"): word for name, word in data.run.items()}
    # What the user's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes before.
    resource = Resource({"service.name": "bdoc", **named}).merge(OTELResourceDetector().detect())
    errors: list[str] = []  # the exporters tell why they failed in their log only
    handler = logging.Handler()
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("opentelemetry").addHandler(handler)
    base = address.rstrip("/")
    metrics = OTLPMetricExporter(endpoint=f"{base}/v1/metrics", timeout=ANSWER_S)
    spans = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=ANSWER_S)
    taken = metrics.export(_metrics(data, resource)).name == "SUCCESS"
    if not taken or spans.export(_spans(data, resource)).name != "SUCCESS":
        raise OSError(errors[0] if errors else "the collector did not take it")
    return ""


def _metrics(data: ExportData, resource: Resource) -> MetricsData | None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], resource).get_meter("bdoc", __version__)
    for one in data.values:
        meter.create_gauge(one.family, UNITS.get(one.unit, "1"), one.about).set(one.value, one.labels)
    info = meter.create_gauge("bdoc.verdict_info", "1", "verdict of bdoc's report")
    info.set(1, data.verdict)
    return reader.get_metrics_data()


def _spans(data: ExportData, resource: Resource) -> list[ReadableSpan]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import set_span_in_context

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
