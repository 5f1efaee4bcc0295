"""The report as markdown: a page for an issue, a prompt for an assistant; what all markdown is made of."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path

from ..model.code import FunctionSource, Location
from ..model.report import Remedy, Report, RunSummary
from . import words
from .compose import INSTALLED, compose, place
from .document import ISSUE, PROMPT
from .words import code, markdown

FIRST = 3  # remedies that are not folded
BAR = 20  # columns
PAGES = Path(__file__).parent / "page"


def fenced(lines: list[str], language: str) -> list[str]:
    """Lines of code between more backticks than they hold."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    marks = "`" * max(3, longest + 1)
    return [f"{marks}{language}", *lines, marks]


def written(template: str, escape: Callable[[str], str], encoding: str, **values: object) -> str:
    """The template of that name, filled: ends in a newline, without two empty lines after each other. Every
    value that it does not mark as safe is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(PAGES), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        finalize=lambda value: value if hasattr(value, "__html__") else escape(str(value)),
    )  # fmt: skip
    pages.filters |= {"code": code, "cell": lambda text: code(text).replace("|", "\\|"), "fenced": fenced}
    pages.filters["bar"] = lambda share: words.bar(share, BAR)
    text = re.sub(r"[ \t]+$", "", pages.get_template(template).render(values), flags=re.MULTILINE)
    return words.fit(re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n", encoding)


def markdown_page(report: Report, encoding: str) -> str:
    """The report as a page that fits into an issue; what is long opens when asked."""
    return written("report.md.j2", markdown, encoding, d=compose(report, ISSUE), FIRST=FIRST)


ASK = {
    "hook~": "ask first, it changes numerics, order or meaning",
    "admin": "ask first, it is a change of hardware, driver, container or cluster",
}
LINE = re.compile(r"([\w./~-]+\.py):(\d{1,9})\b")
Quote = Callable[[Location], FunctionSource | str]  # the lines around a place, or why they are not shown


def prompt(report: Report, profile: str, quote: Quote, encoding: str) -> str:
    """What an assistant needs to apply the remedies: verdict, rules, and of each remedy the place, the lines
    to write, the evidence, and the code around every line that these name. ``profile`` is its path."""
    document, steps, shown = compose(report, PROMPT), [], set[tuple[str, int | str]]()
    evidence = {block.id: block.points for block in document.findings}
    for block in document.remedies:
        remedy = next(one for one in report.remedies if words.plain(one.id) == block.id)
        points = evidence.pop(words.plain(remedy.finding), [])  # once, at the first of its remedies
        quoted = []
        for named in _named(report, remedy, [block.text, *(one.text for one in points)]):
            found = quote(named)
            why = found if isinstance(found, str) else ""  # once of a file
            if not {(named.file, named.line), (named.file, why)} & shown:
                rows = [] if isinstance(found, str) else list(enumerate(found.text.split("\n"), found.first))
                shown |= {(named.file, number) for number, _ in rows} if rows else {(named.file, why)}
                quoted.append((place(named, report.run.cwd), why, _numbered(rows, named.line)))
        steps.append((block, points, quoted))
    commands = {"again": _again(report.run), "compare": f"bdoc compare {shlex.quote(profile)} after-1.json"}
    return written("prompt.md.j2", words.plain, encoding, d=document, steps=steps, ask=ASK, **commands)


def _numbered(rows: list[tuple[int, str]], at: int) -> list[str]:
    """The lines with their numbers and a mark at the one that is meant."""
    return [
        f"{'>' if n == at else ' '} {n:4}  {words.plain(line.expandtabs(4))}".rstrip() for n, line in rows
    ]


def _again(run: RunSummary) -> str:
    """The line that measures the run once more, for as long as it went on if it was ended."""
    line, home = run.command, run.cwd.rstrip("/") + "/"
    if len(line) == 1 and run.script is None:
        return "%%bdoc -o after-1.json"  # a notebook, of which no more is known
    options = [f"--max-seconds={math.ceil(run.duration_s)}"] if run.stopped_by else []
    at = line.index(run.script) if run.script in line[:2] else int(line[1:2] == ["-m"])
    options += [] if at or line[:1] == [run.script] else ["--"]
    again = shlex.join([*options, *(part.removeprefix(home) for part in line[at:])])
    return f"bdoc run -o after-1.json {again}"


def _named(report: Report, remedy: Remedy, texts: list[str]) -> list[Location]:
    """The lines that a remedy, its finding and these texts name in the user's files."""
    found = [remedy.fix.location, *(one.location for one in report.findings if one.id == remedy.finding)]
    known = [*(one.location for one in report.findings), *(one.location for one in report.functions)]
    files = {one.file for one in known if one is not None}
    for file, line in LINE.findall(" ".join(texts)):
        whole = next((one for one in files if one == file or one.endswith(f"/{file}")), file)
        found.append(Location(whole, int(line)))
    return [one for one in found if one is not None and not INSTALLED.search(one.file)]
