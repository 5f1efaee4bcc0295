"""One composed training, whole, without a part, and under bdoc."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.random_trainings.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.alone]  # it measures what a part gains

SHORT = 1018  # samples that sleep, before a small model: five runs of it take half a minute


def test_a_seed_is_measured_diagnosed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    rows, truth = tmp_path / "rows.json", tmp_path / "truth"
    bdoc = f"{sys.executable} -m bottleneck_doctor"
    where = [
        "--json",
        str(rows),
        "--truth",
        str(truth),
        "--keep",
        str(tmp_path / "kept"),
        "--folder",
        str(tmp_path),
    ]
    assert main(["--seeds", str(SHORT), "--bdoc", bdoc, *where]) == 0
    shown = capsys.readouterr().out
    (row,) = json.loads(rows.read_text())
    assert row["same_status"]
    assert row["same_output"]
    assert row["gains"]["input"] > 1.05
    assert row["bound"] != "no report"
    assert "same output: 1 of 1" in shown
    assert set(json.loads((truth / f"{SHORT}.json").read_text())["wall_s"]) >= {"", "input", "model"}
    assert {file.name for file in (tmp_path / "kept" / str(SHORT)).iterdir()} >= {"train.py", "profile.json"}
