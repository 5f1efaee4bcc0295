"""Numbers note what they are compared with, and the page names those that the code has."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.accuracy.thresholds import Constant, Watch, _marked, constants

PAGE = Path(__file__).parents[2] / "docs" / "thresholds.md"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("bottleneck_doctor.made")
    made.SHARE = 0.2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def test_the_nearest_comparisons_are_noted_and_end_as_ever(module: ModuleType) -> None:
    share = Constant(module.__name__, "SHARE", 0.2)
    watch = Watch([share])
    for watch.recording, value in (("a", 0.1), ("b", 0.15), ("c", 0.9), ("d", 0.3)):
        assert (value >= module.SHARE) == (value >= 0.2)
    assert (share.below, share.above) == ((0.15, "b"), (0.3, "d"))
    assert share.used_by == {"a", "b", "c", "d"}


def test_a_share_of_something_is_compared_as_a_share(module: ModuleType) -> None:
    share = Constant(module.__name__, "SHARE", 0.2)
    watch = Watch([share])
    watch.recording = "a"
    assert not module.SHARE * 10 * 2 < 3
    assert share.below == (0.15, "a")


def test_what_is_marked_above_or_beside_is_found() -> None:
    text = "# (ours, measured)\nA, B = 1, 2\nC = 3  # (ours)\nD = 4  # [catalogue F01]\n\n# (ours)\n\nE = 5\n"
    assert list(_marked(text)) == ["A", "B", "C"]


def test_the_page_names_the_numbers_of_the_code() -> None:
    """Which recordings come to them takes half a minute to find out; the command writes it."""
    rows = re.findall(r"^\| `([^`]+)` \| (\S+) ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(one.name, f"{one.value:g}") for one in constants()]
