"""Targets are understood before anything starts; what is sent equals the report, field by field."""

import json
import os
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.commands.options import EXPORT, Settings
from bottleneck_doctor.export import send
from bottleneck_doctor.export.send import Destination, ExportData, destinations, export_data, without_secrets
from bottleneck_doctor.model.codec import encode_report
from bottleneck_doctor.model.errors import UsageError
from tests.house.source import ROOT
from tests.render.reports import INCONCLUSIVE, TYPICAL


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("otlp:http://localhost:4318", "otlp", "http://localhost:4318"),
        ("prometheus:/var/lib/node_exporter/a:b.prom", "prometheus", "/var/lib/node_exporter/a:b.prom"),
        ("mlflow:sqlite:///mlflow.db", "mlflow", "sqlite:///mlflow.db"),
        ("wandb:team/cats and dogs", "wandb", "team/cats and dogs"),
    ],
)
def test_a_target_is_a_kind_and_an_address(text: str, kind: str, address: str) -> None:
    assert destinations([text], "--export") == [Destination(kind, address)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://user:secret@host", "no target 'http', there are otlp:http://HOST:4318, prometheus"),
        ("otlp:secret:4318", "otlp:…: expected otlp:http://HOST:4318"),
        ("otlp:http://host:secret", "expected otlp:http://HOST:4318"),
        ("prometheus:secret.txt", "expected prometheus:FILE.prom"),
        ("wandb:a/b/secret", "expected wandb:[[ENTITY/]PROJECT]"),
    ],
)
def test_what_cannot_be_understood_is_refused_without_repeating_it(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        destinations([text], "--export")
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_targets_may_stand_in_a_variable_each_counts_once_and_one_that_is_unset_is_none() -> None:
    settings = Settings(environ={"BDOC_EXPORT": "mlflow:  wandb:\nmlflow:"})
    assert Settings(environ={"BDOC_EXPORT": ""}).of(EXPORT) == []
    assert [one.kind for one in settings.of(EXPORT)] == ["mlflow", "wandb"]
    assert [one.kind for one in settings.of(EXPORT, ["tensorboard:x"])] == ["tensorboard"]
    assert settings.of(EXPORT, [""]) == []


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://ann:s3cret@host:4318/v1?token=s3cret", "http://host:4318/v1"),
        ("http://ann:s3cret/with@signs@host", "http://host"),
        ("mysql+pymysql://ann:s3cret@db/mlflow", "mysql+pymysql://db/mlflow"),
    ],
)
def test_a_name_a_password_and_a_query_are_not_shown(address: str, shown: str) -> None:
    assert Destination("mlflow", address).shown == f"mlflow:{shown}"


def test_what_a_library_says_of_an_address_is_told_without_its_secrets() -> None:
    address = "http://ann:s3cr%40et@host:5000/?key=abc123"
    for said in (address, "http://ann:s3cr%40et@host/api", "user ann, password s3cr@et", "GET /?key=abc123"):
        told = without_secrets(f"cannot reach {said}", address)
        assert not {"s3cr", "abc123"} & {word for word in ("s3cr", "abc123") if word in told}, told
    assert without_secrets("see http://bob:x@other/", "mlruns") == "see http://other/"


DATA = export_data(TYPICAL)


def told(data: ExportData, kind: str, address: str) -> tuple[bool, str]:
    """What is said of one target."""
    (said,) = send.send(data, [Destination(kind, address)])
    return said


def test_a_library_that_is_not_installed_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stdlib = [place for place in sys.path if "site-packages" not in place]
    monkeypatch.setattr(sys, "path", [str(ROOT), *stdlib])
    sent, said = told(DATA, "prometheus", f"{tmp_path}/a.prom")
    assert not sent
    assert said == (
        f"not exported to prometheus:{tmp_path}/a.prom: No module named 'prometheus_client';"
        " pip install 'bottleneck-doctor[prometheus]' brings the library"
    )


def test_one_that_hangs_or_dies_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(send, "LIMIT_S", 0.001)
    sent, said = told(DATA, "prometheus", f"{tmp_path}/a.prom")
    assert (sent, said) == (False, f"not exported to prometheus:{tmp_path}/a.prom: it took longer than 0 s")
    monkeypatch.undo()
    monkeypatch.setattr(send, "CHILD", "import os; os.abort()")
    assert told(DATA, "prometheus", "a.prom")[1].endswith("its process ended with -6")


def test_what_lies_in_the_users_folder_takes_no_librarys_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
    for name in ("prometheus_client", "pickle", "random"):
        (tmp_path / f"{name}.py").write_text(f"open('taken-{name}', 'w'); raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert told(DATA, "prometheus", "a.prom") == (True, "exported to prometheus:a.prom")
    assert sorted(os.listdir()) == ["a.prom", "pickle.py", "prometheus_client.py", "random.py"]


def test_each_value_names_the_field_that_it_comes_from() -> None:
    report = json.loads(encode_report(TYPICAL))
    for one in export_data(TYPICAL).values:
        field, _, unit = one.about.removesuffix(f", {one.unit}").partition(" of bdoc's report")
        found = report
        for name in field.split("."):
            if isinstance(found, list):
                found = next(remedy for remedy in found if remedy["id"] == one.labels["remedy"])
            found = found[name]
        found = found[one.labels["resource"]] if field == "verdict.gain" else found
        assert (found, unit) == (one.value, ""), one


def test_what_was_not_measured_and_bounds_are_not_sent() -> None:
    paths = {one.path for one in export_data(TYPICAL).values}
    assert "bdoc.gpu_busy_fraction" not in paths
    assert "bdoc.gain.gpu" not in paths
    assert "bdoc.startup_s" in paths
    assert "bdoc.startup_s.low" not in paths
    assert not [path for path in paths if "decode-turbo" in path]
    assert {"bdoc.remedy_speedup.workers-auto", "bdoc.remedy_speedup.workers-auto.high"} <= paths
    nothing = export_data(INCONCLUSIVE)
    assert [one.name for one in nothing.values] == ["bdoc.run_duration_s", "bdoc.run_exit_status"]
    assert nothing.verdict["remedy"] == ""
