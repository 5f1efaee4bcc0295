"""Small files are read whatever is wrong with them."""

from __future__ import annotations

from pathlib import Path

from bottleneck_doctor.sense.proc_files import read_number, read_pairs, read_text
from tests.sense.conftest import Plant


def test_what_cannot_be_read_is_none(plant: Plant) -> None:
    root = plant({"folder/": ""})
    assert read_text(root / "folder") is None
    assert read_text(root / "missing") is None
    assert read_number(root / "missing") is None
    assert read_pairs(root / "missing") == {}


def test_bytes_that_are_no_text_do_not_stop_the_reading(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes(b"\xff\xfe 1")
    assert read_text(tmp_path / "stat") == "\ufffd\ufffd 1"


def test_numbers_and_words_are_told_apart(plant: Plant) -> None:
    root = plant({"max": "max\n", "seven": "7\n"})
    assert (read_number(root / "max"), read_number(root / "seven")) == (None, 7)


def test_pairs_come_with_or_without_colons_and_units(plant: Plant) -> None:
    root = plant({"pairs": "MemTotal:  12 kB\nnr_periods 3\nnode -1\nlonely\nname text\n"})
    assert read_pairs(root / "pairs") == {"MemTotal": 12, "nr_periods": 3, "node": -1}
