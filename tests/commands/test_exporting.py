"""``--export``: refused before the script starts, done at the end, and never the run's failure."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.commands import reading
from bottleneck_doctor.commands.app import main
from tests.commands.conftest import Store
from tests.commands.running import bdoc, script

FAILS = "open('seen', 'w').close(); import sys; print('hello'); sys.exit(7)"
NOWHERE = "pushgateway:http://ann:s3cret@127.0.0.1:9"


def test_a_target_that_cannot_be_understood_ends_it_before_the_script_starts(folder: Path) -> None:
    told = bdoc(folder, "--export", "grafana:http://ann:s3cret@host", script(folder, FAILS))
    assert (told.status, told.out, os.path.exists(folder / "seen")) == (2, b"", False)
    assert told.err.startswith("bdoc: --export: no target 'grafana', there are otlp:http://HOST:4318, ")
    assert told.err.count("\n") == 1
    assert "s3cret" not in told.err


def test_an_export_that_fails_is_one_line_behind_the_report_and_changes_nothing(folder: Path) -> None:
    name = script(folder, FAILS)
    without = bdoc(folder, name)
    files = sorted(os.listdir(folder))
    with_it = bdoc(folder, name, env={"BDOC_EXPORT": NOWHERE})
    assert (with_it.status, with_it.out, with_it.left) == (7, b"hello\n", []) == (
        without.status, without.out, without.left,
    )  # fmt: skip
    assert sorted(os.listdir(folder)) == files
    *report, line = with_it.err.splitlines()
    assert line.startswith("bdoc: not exported to pushgateway:http://127.0.0.1:9: ")
    assert "inconclusive" in "\n".join(report)
    assert "s3cret" not in with_it.err
    assert with_it.profile["run"]["exit_status"] == 7


def test_a_run_is_exported_with_a_script_that_sees_nothing_of_it(folder: Path) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
    source = "import os, sys; print(sorted(os.environ)); print('prometheus_client' in sys.modules)"
    name = script(folder, source)
    without = bdoc(folder, "-q", name)
    told = bdoc(folder, "-q", "--export", "prometheus:a.prom", name)
    assert (told.status, told.out, told.err) == (0, without.out, "")
    assert 'bdoc_run_exit_status{run="a"} 0' in (folder / "a.prom").read_text()


def test_who_looks_at_a_report_again_does_not_send_it_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(reading, "export", lambda profile, to: sent.extend(one.kind for one in to))
    monkeypatch.setenv("BDOC_EXPORT", "mlflow:")
    store("typical")
    assert main(["report"]) == 0
    assert sent == []
    printed = capsys.readouterr().out
    assert main(["report", "--export", "wandb:", "--export", "otlp:http://host"]) == 0
    assert (sent, capsys.readouterr().out) == (["wandb", "otlp"], printed)


def test_a_failure_of_ours_is_one_line(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no(*_: object) -> None:
        raise OSError("no luck")

    store("typical")
    monkeypatch.setattr("bottleneck_doctor.export.data.export_data", no)
    assert main(["report", "--export", "prometheus:a.prom"]) == 0
    assert capsys.readouterr().err == "bdoc: not exported: OSError: no luck\n"
