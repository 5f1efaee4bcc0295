"""The page beside a CI job: short, the terminal's own words, and nobody's markup but ours."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bottleneck_doctor.model.gate import Checked, Gate
from bottleneck_doctor.render.ci import LARGEST_BYTES, summary
from tests.render.drawn import require_golden
from tests.render.gates import ALL, FINE, GATES, SEVERAL
from tests.render.hostile import ATTACKS, attacked


@pytest.mark.parametrize("name", ["all", "unsure"])
def test_a_page_is_written_as_accepted(name: str) -> None:
    require_golden(f"gate-{name}.md.txt", summary(GATES[name]))


@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile_strings_add_no_markup(attack: str) -> None:
    page = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", summary(attacked(ALL, ATTACKS[attack])))
    assert not re.search(r"<(?!!-- -->)", page)
    assert not re.search(r"(?<!\\)\]\(|@\w|(?<!&)#\d", page)
    assert len(re.findall(r"^#", page, re.MULTILINE)) == 1


@pytest.mark.parametrize("attack", ATTACKS)
def test_every_row_has_as_many_cells_as_the_head(attack: str) -> None:
    table = re.findall(r"(?:^\|.*\|\n)+", summary(attacked(ALL, ATTACKS[attack])), re.MULTILINE)
    assert len(table) == 1
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table[0].splitlines()}) == 1


def test_repeats_that_say_the_same_are_told_once() -> None:
    assert summary(SEVERAL).count("Make batches in worker processes") == 1


def test_a_page_takes_no_more_room_than_there_is() -> None:
    whole = summary(ALL)
    for room in (len(whole.encode()), len(whole.encode()) - 1, 200, 40, 5, 0, -1):
        page = summary(ALL, room)
        assert len(page.encode()) <= max(0, room)
    assert summary(ALL, len(whole.encode())) == whole
    assert summary(ALL, 40) == "## bdoc check: fails\n\n"


def test_ten_thousand_profiles_fit_into_what_github_takes() -> None:
    many = Gate(1, [replace(one, profile="p" * 200) for one in ALL.checked * 10_000])
    assert 1000 < len(summary(many).encode()) <= LARGEST_BYTES


def test_a_gate_that_holds_says_so_first() -> None:
    assert summary(FINE).startswith("## bdoc check: holds\n")
    assert summary(Gate(3, [Checked("a", FINE.checked[0].report, FINE.checked[0].outcome)])).startswith(
        "## bdoc check: cannot say\n"
    )
