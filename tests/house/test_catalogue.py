"""Every number that cites the catalogue has its line there."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.house.source import PACKAGE, ROOT, Broken, Source, python_sources, require_none

PAGE = "docs/catalogue.md"
CITED = re.compile(r"\[catalogue ([^\]]+)\]")
ENTRY = re.compile(r"\b(?:F\d\d|P?\d\.\d|B)\b")


def uncatalogued(source: Source, entries: set[str]) -> Iterator[Broken]:
    """Citations of a file that lead nowhere."""
    for number, line in enumerate(source.text.splitlines(), 1):
        for citation in CITED.findall(line):
            for entry in ENTRY.findall(citation.partition(":")[0]):
                if entry not in entries:
                    do = f"say in {PAGE} what was measured, or cite the source that it comes from"
                    yield Broken(source.file, number, f"[catalogue {entry}] has no line", do)


def test_every_citation_has_its_line() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    entries = set(re.findall(r"^\| (\S+) \|", page, re.MULTILINE))
    assert "F01" in entries
    require_none(
        broken for source in python_sources(f"{PACKAGE}/") for broken in uncatalogued(source, entries)
    )


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("WORTH = 1.03  # [catalogue 2.3, F02]", ["[catalogue F02] has no line"]),
        ("SHARE = 0.3  # [catalogue F01: 0.9 there], [catalogue B]", ["[catalogue B] has no line"]),
        ("SHARE = 0.3  # (ours), F99", []),
    ],
)
def test_the_rule_itself_reads_citations(text: str, missing: list[str]) -> None:
    assert [one.rule for one in uncatalogued(Source("a.py", text), {"2.3", "F01"})] == missing
