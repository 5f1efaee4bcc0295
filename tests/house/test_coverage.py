"""Every id that docs/coverage.md answers a guide with is one that `bdoc explain` knows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from bottleneck_doctor.findings.registry import offered, pages
from bottleneck_doctor.render.glossary import CAUSES, METRICS
from tests.house.source import ROOT, Broken, require_none

PAGE = "docs/coverage.md"
NOT_BUILT = re.compile(r"not built: .{10,}")
ID = re.compile(r"`([a-z0-9]+(?:[-_.][a-z0-9]+)*)`")


def answers(page: str) -> Iterator[tuple[int, str, str]]:
    """Line, advice and answer of each row of the page's tables."""
    for number, line in enumerate(page.splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 2 and cells[0] not in ("a guide says", "---"):
            yield number, cells[0], cells[1]


def unknown(page: str, known: set[str]) -> Iterator[Broken]:
    """Answers with an id that nothing has, and rows without an answer."""
    for number, advice, answer in answers(page):
        if not answer:
            yield Broken(PAGE, number, f"“{advice}” has no answer", "name one, or say `not built: why`")
        if answer.startswith("not built") and not NOT_BUILT.match(answer):
            yield Broken(PAGE, number, f"“{advice}” is not built, and nothing says why", "say why")
        for name in () if answer.startswith("not built") else ID.findall(answer):
            if name not in known:
                do = "mend the id, or answer `not built: why`"
                yield Broken(PAGE, number, f"`{name}` is no finding, remedy, metric or cause", do)


def test_every_id_in_an_answer_exists() -> None:
    known = {*pages(), *offered(), *METRICS, *CAUSES}
    require_none(unknown((ROOT / PAGE).read_text(encoding="utf-8"), known))


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ("| SSD | `a-b`, `m_n` |", []),
        ("| SSD | `a-c` |", ["`a-c` is no finding, remedy, metric or cause"]),
        ("| SSD | |", ["“SSD” has no answer"]),
        ("| SSD | not built |", ["“SSD” is not built, and nothing says why"]),
    ],
)
def test_the_rule_itself_reads_rows(row: str, broken: list[str]) -> None:
    assert [one.rule for one in unknown(row, {"a-b", "m_n"})] == broken
