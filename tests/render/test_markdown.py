"""A report in a pull request: the same numbers, and nobody's markup but ours."""

from __future__ import annotations

import re

import pytest

from bottleneck_doctor.render import render
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked, without_code
from tests.render.reports import PHASED, TYPICAL, WATCHED

OUR_TAGS = {"<br>", "<sub>", "</sub>", "<details>", "</details>", "<summary>", "</summary>", "<!-- -->"}


@pytest.mark.parametrize(("name", "report"), [("phased", PHASED), ("watched", WATCHED)])
def test_a_page_is_written_as_accepted(name: str, report: object) -> None:
    # Not *.md: formatters would rewrite the Python in it.
    require_golden(f"{name}.md.txt", render(report, "markdown"))  # type: ignore[arg-type]


def test_no_tag_but_ours_survives_outside_code() -> None:
    for attack in ATTACKS.values():
        page = without_code(render(attacked(WATCHED, attack), "markdown"))
        assert set(re.findall(r"<[^>]*>", page)) <= OUR_TAGS


def test_an_attack_adds_no_headings_links_or_mentions() -> None:
    for attack in ATTACKS.values():
        page = without_code(render(attacked(WATCHED, attack), "markdown"))
        headings = _headings(without_code(render(attacked(WATCHED, "x"), "markdown")))
        assert [line.split()[0] for line in _headings(page)] == [line.split()[0] for line in headings]
        assert not re.search(r"(?<!\\)\]\(|@\w|(?<!&)#\d", page)


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    for attack in ATTACKS.values():
        page = render(attacked(WATCHED, attack), "markdown")
        tables = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
        assert len(tables) == 7
        for table in tables:
            assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


def test_a_snippet_cannot_close_its_own_fence() -> None:
    page = render(attacked(TYPICAL, ATTACKS["fence"]), "markdown")
    opened = re.findall(r"^ *(`{3,})python$", page, re.MULTILINE)
    assert opened
    for fence in opened:
        assert len(fence) > len("````")


def _headings(page: str) -> list[str]:
    return [line for line in page.splitlines() if re.match(r"\s*(?:[-*+]\s+|\d+\.\s+)*#+\s", line)]
