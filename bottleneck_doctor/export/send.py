"""Sends what a report concludes to where people already look: the values, a function for each kind of target,
and the checking of targets (``KIND:ADDRESS``), which is done before the training starts.

Each target is served by a process of its own, which may hang or fall without harm, and imports its library
there. What fails in there raises.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .. import __version__
from ..model.errors import UsageError
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
    first = next((one.id for one in report.remedies), "")
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


@dataclass(frozen=True)
class Destination:
    """``kind`` is a key of ``KINDS``; ``address`` may hold a name and a password."""

    kind: str
    address: str

    @property
    def shown(self) -> str:
        """For people: without a name, a password and a query."""
        return without_secrets(f"{self.kind}:{self.address}", self.address) if self.address else self.kind


def _is_web(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False


Carrier = Callable[[str, ExportData], str]  # carries the data to an address, returns words about where it is
# How a kind of target is written, what its address must be, and its carrier; the extra of its name brings the
# library.
KINDS: dict[str, tuple[str, Callable[[str], object], Carrier]] = {
    "otlp": ("otlp:http://HOST:4318", _is_web, otlp),
    "prometheus": ("prometheus:FILE.prom", re.compile(r".+\.prom").fullmatch, prometheus),
    "mlflow": ("mlflow:[TRACKING-URI]", re.compile(r".*").fullmatch, mlflow),
    "wandb": ("wandb:[[ENTITY/]PROJECT]", re.compile(r"(([^/#?%:]+/)?[^/#?%:]+)?").fullmatch, wandb),
    "tensorboard": ("tensorboard:DIR", re.compile(r".+").fullmatch, tensorboard),
}


def destinations(texts: list[str], origin: str) -> list[Destination]:
    """The targets, each once; empty texts, as of a variable that is unset, are none.

    Raises ``UsageError``, which names the kind alone: an address that is not understood may hold a password.
    """
    found = []
    for text in filter(None, texts):
        kind, _, address = text.partition(":")
        if kind not in KINDS:
            known = ", ".join(written for written, *_ in KINDS.values())
            raise UsageError(f"{origin}: no target {kind[:20]!r}, there are {known}")
        written, fits, _ = KINDS[kind]
        if not fits(address):
            raise UsageError(f"{origin} {kind}:…: expected {written}")
        found.append(Destination(kind, address))
    return list(dict.fromkeys(found))


def without_secrets(text: str, address: str) -> str:
    """A text about an address, without what stands in it before an @ or after a question mark."""
    address, _, query = address.partition("?")
    found = re.search(r"://(.*)@", address)
    user = found[1] if found else ""
    password = user.partition(":")[2]
    for secret in (f"?{query}", query, f"{user}@", unquote(password), password, user):
        if len(secret) > 1:
            text = text.replace(secret, "")
    return re.sub(r"://[^/\s]*@", "://", text)


LIMIT_S = 60.0  # for importing the library and all that it sends; a server has ANSWER_S to answer
ANSWER_AT_MOST = 300  # characters of what a library says of its failure
HOME = str(Path(__file__).resolve().parents[2])  # of the package: sys.path may hold relative folders
# -I: nothing in the user's folder may take the place of a library. The path is this process's own.
CHILD = "import pickle, sys; job = sys.stdin.buffer; sys.path[:] = pickle.load(job); pickle.load(job)()"


def send(data: ExportData, destinations: list[Destination]) -> Iterator[tuple[bool, str]]:
    """Of each destination, in their order: whether all of the data is there, and a sentence about it."""
    with ThreadPoolExecutor(max(1, len(destinations))) as pool:
        yield from pool.map(partial(_send, data), destinations)


def _send(data: ExportData, to: Destination) -> tuple[bool, str]:
    job = pickle.dumps([*sys.path, HOME]) + pickle.dumps(partial(carry_out, to, data))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", CHILD], input=job, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, f"not exported to {to.shown}: it took longer than {LIMIT_S:.0f} s"
    answer = without_secrets(done.stdout.decode(errors="replace"), to.address)
    text = " ".join(answer.split())[:ANSWER_AT_MOST]
    if done.returncode == 0:
        return True, f"exported to {to.shown}{text and ': '}{text}"
    return False, f"not exported to {to.shown}: {text or f'its process ended with {done.returncode}'}"


def carry_out(to: Destination, data: ExportData) -> None:
    """In the process of its own: send, write to stdout what came of it, and end it. What libraries print goes
    to stderr."""
    answer = os.dup(1)
    os.dup2(2, 1)
    status = 1
    try:
        text = KINDS[to.kind][2](to.address, data)
        status = 0
    except ImportError as problem:
        text = f"{problem}; pip install 'bottleneck-doctor[{to.kind}]' brings the library"
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
    os.write(answer, text.encode(errors="replace"))
    sys.exit(status)
