"""Targets: understood before anything starts, refused in one line, and shown without secrets."""

from __future__ import annotations

import pytest

from bottleneck_doctor.commands.options import EXPORT, Settings
from bottleneck_doctor.export.send import Destination, destinations, without_secrets
from bottleneck_doctor.model.errors import UsageError


@pytest.mark.parametrize(
    ("text", "kind", "address"),
    [
        ("otlp:http://localhost:4318", "otlp", "http://localhost:4318"),
        ("otlp:https://user:pw@host/otlp", "otlp", "https://user:pw@host/otlp"),
        ("prometheus:/var/lib/node_exporter/a:b.prom", "prometheus", "/var/lib/node_exporter/a:b.prom"),
        ("pushgateway:http://[::1]:9091", "pushgateway", "http://[::1]:9091"),
        ("mlflow:", "mlflow", ""),
        ("mlflow", "mlflow", ""),
        ("mlflow:sqlite:///mlflow.db", "mlflow", "sqlite:///mlflow.db"),
        ("wandb:", "wandb", ""),
        ("wandb:cats", "wandb", "cats"),
        ("wandb:team/cats and dogs", "wandb", "team/cats and dogs"),
        ("tensorboard:logs", "tensorboard", "logs"),
    ],
)
def test_a_target_is_a_kind_and_an_address(text: str, kind: str, address: str) -> None:
    assert destinations([text], "--export") == [Destination(kind, address)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("http://user:secret@host", "no target 'http', there are otlp:http://HOST:4318, prometheus"),
        ("grafana:secret", "no target 'grafana'"),
        ("otlp:secret:4318", "otlp:…: expected otlp:http://HOST:4318"),
        ("otlp:http://:4318", "expected otlp:http://HOST:4318"),
        ("pushgateway:http://host:secret", "expected pushgateway:http://HOST:9091"),
        ("pushgateway:", "expected pushgateway:http://HOST:9091"),
        ("prometheus:secret.txt", "expected prometheus:FILE.prom"),
        ("wandb:a/b/secret", "expected wandb:[[ENTITY/]PROJECT]"),
        ("tensorboard:", "expected tensorboard:DIR"),
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
        ("http://host:4318/v1", "http://host:4318/v1"),
        ("http://ann:s3cret@host:4318/v1?token=s3cret", "http://host:4318/v1"),
        ("http://ann:s3cret/with@signs@host", "http://host"),
        ("databricks://s3cret@profile", "databricks://profile"),
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
