"""Sending: each target by a process of its own, whose failure is a sentence; nothing of ours is harmed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.export import send
from bottleneck_doctor.export.data import ExportData, export_data
from bottleneck_doctor.export.send import Destination
from bottleneck_doctor.model.picture import Timeline
from tests.house.source import ROOT
from tests.render.reports import TYPICAL

DATA = export_data(TYPICAL, Timeline(38.21))


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


def test_one_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(send, "LIMIT_S", 0.001)
    sent, said = told(DATA, "prometheus", f"{tmp_path}/a.prom")
    assert (sent, said) == (False, f"not exported to prometheus:{tmp_path}/a.prom: it took longer than 0 s")


def test_one_that_dies_without_a_word_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(send, "CHILD", "import os; os.abort()")
    assert told(DATA, "prometheus", f"{tmp_path}/a.prom")[1].endswith("its process ended with -6")


def test_targets_are_told_in_their_order_and_one_does_not_keep_another_from_its_data(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
    to = [Destination("prometheus", f"{tmp_path}/{name}.prom") for name in ("absent/a", "b")]
    assert [sent for sent, _ in send.send(DATA, to)] == [False, True]
    assert (tmp_path / "b.prom").exists()


def test_what_lies_in_the_users_folder_takes_no_librarys_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
    for name in ("prometheus_client", "pickle", "random"):
        (tmp_path / f"{name}.py").write_text(f"open('taken-{name}', 'w'); raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert told(DATA, "prometheus", "a.prom") == (True, "exported to prometheus:a.prom")
    assert sorted(os.listdir()) == ["a.prom", "pickle.py", "prometheus_client.py", "random.py"]


@pytest.mark.slow  # importing mlflow takes seconds
def test_our_own_environment_stays_as_it_was() -> None:
    before = dict(os.environ)
    told(DATA, "mlflow", "http://127.0.0.1:9")
    assert dict(os.environ) == before
