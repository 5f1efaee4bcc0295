"""MLflow: what its own client reads back from its own store."""

from pathlib import Path
from typing import Any

import pytest

from tests.export import sent

pytest.importorskip("mlflow", reason="needs the extra `mlflow`")
pytest.importorskip("sqlalchemy", reason="needs the extra `mlflow`")
pytestmark = pytest.mark.slow  # a second or two to import it, as much to make its tables


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store that has its tables, and an experiment."""
    import mlflow

    place = tmp_path_factory.mktemp("store")
    mlflow.MlflowClient(f"sqlite:///{place}/mlflow.db").create_experiment("cats", f"file://{place}/artifacts")
    return place


@pytest.fixture
def client(store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its client; runs without a place of their own belong to the experiment."""
    import mlflow

    monkeypatch.chdir(store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "cats")
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return mlflow.MlflowClient(f"sqlite:///{store}/mlflow.db")


def export(store: Path) -> None:
    """The recorded run's report goes there."""
    sent.export(store, f"mlflow:sqlite:///{store}/mlflow.db", "r.html")


def require_held(run: Any, client: Any, store: Path) -> None:
    """The run holds the report's numbers, the verdict and the page."""
    ours = {name: value for name, value in run.data.metrics.items() if name.startswith("bdoc.")}
    assert ours == sent.named("bdoc.")
    tags = {name: word for name, word in run.data.tags.items() if name.startswith("bdoc.")}
    assert {name: tags[f"bdoc.{name}"] for name in sent.verdict()} == sent.verdict()
    assert tags["bdoc.summary"] == sent.report()["verdict"]["summary"]
    page = client.download_artifacts(run.info.run_id, "bdoc/report.html", str(store))
    assert Path(page).read_text() == (store / "r.html").read_text()


def test_a_new_run_holds_the_report_and_took_as_long(
    client: Any, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(store)
    (run,) = client.search_runs([client.get_experiment_by_name("cats").experiment_id])
    require_held(run, client, store)
    assert run.info.status == "FINISHED"
    took_s = (run.info.end_time - run.info.start_time) / 1000
    assert took_s == pytest.approx(sent.report()["run"]["duration_s"], abs=0.002)
    assert f"run {run.info.run_id}" in capsys.readouterr().err
    client.delete_run(run.info.run_id)


def test_the_trainings_own_run_gets_it_and_stays_as_it_was(
    client: Any, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = client.create_run(client.get_experiment_by_name("cats").experiment_id)
    client.log_metric(training.info.run_id, "loss", 0.5)
    client.set_terminated(training.info.run_id, "FAILED", 12345)
    monkeypatch.setenv("MLFLOW_RUN_ID", training.info.run_id)
    export(store)
    run = client.get_run(training.info.run_id)
    require_held(run, client, store)
    assert run.data.metrics["loss"] == 0.5
    assert (run.info.status, run.info.end_time) == ("FAILED", 12345)
    assert [one.info.run_id for one in client.search_runs([run.info.experiment_id])] == [run.info.run_id]
