"""Docs in step with the code: what the README promises exists, and generated pages are fresh."""

import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from bottleneck_doctor.analyse.verdict import SENTENCES
from bottleneck_doctor.findings.registry import offered, pages
from bottleneck_doctor.model.profile import SCHEMA_VERSION, Profile
from bottleneck_doctor.render.glossary import METRICS
from tests.house import pictures, quoted, reference
from tests.house.law import LAWS
from tests.house.source import PACKAGE, ROOT, Broken, house_files, require_none

COVERAGE = "docs/coverage.md"
NOT_BUILT = re.compile(r"not built: .{10,}")
ID = re.compile(r"`([a-z0-9]+(?:[-_.][a-z0-9]+)*)`")
PAGES = [file for file in house_files() if file.endswith(".md")]


def test_the_readme_draws_every_room_with_a_line_about_it_and_none_that_is_gone() -> None:
    drawn = tree_lines((ROOT / "README.md").read_text(encoding="utf-8"))
    folders = {part for file in house_files() for part in file.split("/")[:-1]} | {"reference"}
    assert {room for room in LAWS if room} - drawn == set(), (
        "add a line `room/  what it does` to the README's tree"
    )
    assert drawn - folders == set(), "take it out of the README's tree"


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there_and_what_it_quotes_is_of_today(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    require_none(Broken(page, 1, rule, "name what is there today") for rule in dead(page, text))
    assert quoted.anew(text) == text, f"{page} is stale: run `make docs` and read the diff"


def dead(page: str, text: str) -> Iterator[str]:
    """Targets of `make`, files of the package, links and headings that a page names and nobody has."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for found in re.finditer(r"(?:^|`|\$ )make ([a-z]+)\b", text, re.MULTILINE):
        if found[1] not in targets:
            yield f"`{found[0]}` is no target"
    rooms = "|".join(room for room in LAWS if room)
    for file in re.findall(rf"`((?:{rooms})/[\w/]+\.py)`", text):
        if not (ROOT / PACKAGE / file).exists():
            yield f"`{file}` does not exist"
    written = {f"docs/reference/{name}" for name in reference.reference()}  # by `make docs`
    for link, _, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(#([^)\s]+))?\)", text):
        path = os.path.normpath(os.path.join(os.path.dirname(page), link)) if link else page
        if not (ROOT / path).exists() and path not in written:
            yield f"the link `{link}` leads nowhere"
        elif anchor and path.endswith(".md") and path not in written and anchor not in headings(ROOT / path):
            yield f"no heading makes `#{anchor}`"


def test_the_picture_of_the_terminal_says_what_a_terminal_shows() -> None:
    drawn, shown = (pictures.TERMINAL.read_text("utf-8"), pictures.as_svg(pictures.terminal()))
    said = "".join(pictures.words_of(drawn))
    assert said == "".join(pictures.words_of(shown)) == "".join(pictures.terminal(color=False).split()), (
        "docs/terminal.svg is stale: run `python -m tests.house.pictures`"
    )


def test_the_page_about_the_profile_names_every_key() -> None:
    page = (ROOT / "docs" / "profile.md").read_text(encoding="utf-8")
    assert [one.name for one in fields(Profile) if one.name not in page] == []
    assert f'profile["schema_version"] == {SCHEMA_VERSION}' in page


def test_every_id_in_an_answer_exists() -> None:
    known = {*pages(), *offered(), *METRICS, *SENTENCES}
    require_none(unknown((ROOT / COVERAGE).read_text(encoding="utf-8"), known))


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
            yield Broken(COVERAGE, number, f"“{advice}” has no answer", "name one, or say `not built: why`")
        if answer.startswith("not built") and not NOT_BUILT.match(answer):
            yield Broken(COVERAGE, number, f"“{advice}” is not built, and nothing says why", "say why")
        for name in () if answer.startswith("not built") else ID.findall(answer):
            if name not in known:
                do = "mend the id, or answer `not built: why`"
                yield Broken(COVERAGE, number, f"`{name}` is no finding, remedy, metric or cause", do)


def headings(path: Path) -> set[str]:
    """The anchors of a page's headings, as repositories make them."""
    prose = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def tree_lines(page: str) -> set[str]:
    """Folders that a drawn tree shows together with words about them."""
    drawings = re.findall(r"^```.*?\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    lines = [line for drawing in drawings for line in drawing.splitlines()]
    return {m[1] for line in lines if (m := re.match(r"[\s│├└─|`+-]*(\w+)/\s+\S", line))}
