"""One function for each kind of target: carries the data to an address, and returns words about where it is.

Each runs in a process of its own and imports its library there. What fails raises.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from .. import __version__
from .data import ExportData

ANSWER_S = 5.0  # for a collector
MLFLOW_ANSWER_S = 15  # a small server that has just begun takes more than 5
WANDB_ANSWER_S = 10
UNITS = {"s": "s", "1/s": "1/s"}  # UCUM; all else has no dimension: "1"
VERDICT = "verdict of bdoc's report"
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
    begin, end = data.begin_ns // 10**6, data.end_ns // 10**6
    run = os.environ.get("MLFLOW_RUN_ID", "")
    own = not run
    if own:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME")
        experiment = os.environ.get("MLFLOW_EXPERIMENT_ID", "0" if not name else "")
        experiment = experiment or library.set_experiment(name).experiment_id
        run = client.create_run(experiment, begin, run_name=f"bdoc {data.run.get('script', '')}").info.run_id
    try:
        client.log_batch(
            run,
            metrics=[Metric(one.path, one.value, end, 0) for one in data.values],
            tags=[RunTag(f"bdoc.{name}", word) for name, word in {**data.run, **data.verdict}.items()],
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

    table = "\n".join(f"| {name} | `{word}` |" for name, word in {**data.verdict, **data.run}.items())
    writer = EventFileWriter(address)
    for summary in (
        *(scalar_pb(one.path.replace(".", "/", 1), one.value, one.about) for one in data.values),
        text_pb("bdoc/verdict", f"| | |\n|---|---|\n{table}"),
    ):
        writer.add_event(Event(wall_time=data.end_ns / 1e9, step=0, summary=summary))
    writer.close()
    return ""


def prometheus(address: str, data: ExportData) -> str:
    """Replace a file for node-exporter's textfile collector. Its name's stem is the label ``run``: two files
    of one folder may not hold the same series, or the collector refuses both."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry, families, own = CollectorRegistry(), dict[str, Gauge](), {"run": Path(address).stem}
    for one in data.values:
        name, labels = one.family.replace(".", "_"), {**own, **one.labels}
        if name not in families:
            families[name] = Gauge(name, one.about, list(labels), registry=registry)
        families[name].labels(**labels).set(one.value)
    labels = {**own, **data.verdict}
    Gauge("bdoc_verdict_info", VERDICT, list(labels), registry=registry).labels(**labels).set(1)
    write_to_textfile(address, registry)
    return ""


def otlp(address: str, data: ExportData) -> str:
    """OpenTelemetry over HTTP: send gauges to the collector. Raises ``OSError`` if it refuses them."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    named = {SEMANTIC.get(name, f"bdoc.{name}"): word for name, word in data.run.items()}
    # What the user's OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say goes before.
    resource = Resource({"service.name": "bdoc", **named}).merge(OTELResourceDetector().detect())
    errors: list[str] = []  # the exporter writes why it failed to its log only
    handler = logging.Handler()
    handler.emit = lambda record: errors.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("opentelemetry").addHandler(handler)
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], resource).get_meter("bdoc", __version__)
    for one in data.values:
        meter.create_gauge(one.family, UNITS.get(one.unit, "1"), one.about).set(one.value, one.labels)
    meter.create_gauge("bdoc.verdict_info", "1", VERDICT).set(1, data.verdict)
    exporter = OTLPMetricExporter(endpoint=f"{address.rstrip('/')}/v1/metrics", timeout=ANSWER_S)
    if exporter.export(reader.get_metrics_data()).name != "SUCCESS":
        raise OSError(errors[0] if errors else "the collector did not take it")
    return ""
