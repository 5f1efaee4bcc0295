"""The text file, read back by Prometheus' own parser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.export import sent

pytest.importorskip("prometheus_client", reason="needs the extra `prometheus`")
from prometheus_client.parser import text_string_to_metric_families


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """What is written over a file that was there."""
    file = tmp_path / "cats.prom"
    file.write_text("of old")
    before = os.stat(file).st_ino
    sent.export(tmp_path, f"prometheus:{file}")
    assert os.stat(file).st_ino != before  # another file took its place: no reader sees half of one
    assert sorted(one.name for one in tmp_path.iterdir()) == ["cats.prom", "profile.json", "r.md"]
    return file


def samples(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Names, labels and values of a text."""
    families = text_string_to_metric_families(text)
    return [(one.name, one.labels, one.value) for family in families for one in family.samples]


def test_the_file_holds_each_number_of_the_report(file: Path) -> None:
    found = samples(file.read_text())
    assert {labels.pop("run") for _, labels, _ in found} == {"cats"}
    assert [labels for name, labels, _ in found if name == "bdoc_verdict_info"] == [sent.verdict()]
    assert sent.of_labels([one for one in found if one[0] != "bdoc_verdict_info"]) == sent.numbers()


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"prometheus:{tmp_path}/absent/cats.prom"
    sent.export(tmp_path, target)
    told = capsys.readouterr().err
    assert told.startswith(f"bdoc: not exported to {target}: FileNotFoundError: ")
    assert told.count("\n") == 1
