"""OTLP over HTTP: what a collector is sent, decoded by OpenTelemetry's own messages."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.export import sent

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra `otlp`")
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

UNITS = {"s": "s", "1/s": "1/s", "share": "1"}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[sent.Request]:
    """What a collector was asked, by a name and a password."""
    with sent.receiver() as (host, asked), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=lab,host.name=mine")
        sent.export(tmp_path_factory.mktemp("otlp"), f"otlp:http://ann:pw@{host}/")
    return asked


def attributes(found: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in found.attributes}


def test_a_collector_holds_each_number_of_the_report_with_its_unit(asked: list[sent.Request]) -> None:
    message = ExportMetricsServiceRequest.FromString(asked[0].body)
    metrics = message.resource_metrics[0].scope_metrics[0].metrics
    points = [(one, point) for one in metrics for point in one.gauge.data_points]
    values = [(one.name, attributes(point), point.as_double or point.as_int) for one, point in points]
    info = [labels for name, labels, _ in values if name == "bdoc.verdict_info"]
    assert info == [sent.verdict()]
    assert sent.of_labels([one for one in values if one[0] != "bdoc.verdict_info"]) == sent.numbers()
    units, about = ({one.name: getattr(one, field) for one in metrics} for field in ("unit", "description"))
    for name, metric in sent.report()["metrics"].items():
        if metric["value"] is not None:
            assert units[f"bdoc.{name}"] == UNITS[metric["unit"]]
            assert about[f"bdoc.{name}"].startswith(f"metrics.{name}.value of")


def test_the_resource_says_whose_they_are_and_the_users_words_go_before(asked: list[sent.Request]) -> None:
    message = ExportMetricsServiceRequest.FromString(asked[0].body)
    found, run = attributes(message.resource_metrics[0].resource), sent.report()["run"]
    assert found["service.name"] == "bdoc"
    assert found["host.name"] == "mine"
    assert found["deployment.environment"] == "lab"
    assert found["bdoc.script"] == run["script"]
    assert found["process.runtime.version"] == run["python"]


def test_a_collector_that_refuses_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    with sent.receiver(503) as (host, _):
        sent.export(tmp_path, f"otlp:http://ann:s3cret@{host}")
    told = capsys.readouterr().err
    assert told.startswith(f"bdoc: not exported to otlp:http://{host}: OSError: ")
    assert told.count("\n") == 1
    assert "s3cret" not in told
    assert time.monotonic() - begun < 20
