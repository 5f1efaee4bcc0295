"""A device's sheet can be gone on with another time."""

from __future__ import annotations

from pathlib import Path

from tests.gpu.records import load, save
from tests.gpu.sheet import Sheet, section
from tests.gpu.test_examine import STARVED, judged, report, taken
from tests.lab.golden import read

FOUND = Sheet(
    "box",
    {STARVED.name: judged(STARVED, report(), taken())},
    lines={"waits": "the same"},
    harm={"waits": False},
    failed={"graphed": "out of memory"},
    left_out=["cost-1ms"],
)


def test_what_was_found_is_there_again_and_what_was_left_out_may_come_now(tmp_path: Path) -> None:
    save(tmp_path, FOUND)
    again = load(tmp_path, "box")
    assert again.left_out == []
    again.left_out = FOUND.left_out
    assert section(again) == section(FOUND) == read(tmp_path, "table.md").decode()
    assert (again.right, again.harm) == (FOUND.right, FOUND.harm)


def test_another_machine_begins_anew(tmp_path: Path) -> None:
    save(tmp_path, FOUND)
    assert load(tmp_path, "another box") == Sheet("another box")
    assert load(tmp_path / "nowhere", "box") == Sheet("box")
