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
NEAR = 5  # lines: what is so near to a place was shown with it
LINE = re.compile(r"([\w./~-]+\.py):(\d{1,9})\b")
Quote = Callable[[Location], FunctionSource | str]  # the lines around a place, or why they are not shown


def prompt(report: Report, profile: str, quote: Quote, encoding: str) -> str:
    """What an assistant needs to apply the remedies: verdict, rules, and of each remedy the place, the lines
    to write, the evidence, and the code around every line that these name. ``profile`` is its path."""
    document, steps, shown = compose(report, PROMPT), [], list[Location]()
    evidence = {block.id: block.points for block in document.findings}
    for block in document.remedies:
        remedy = next(one for one in report.remedies if words.plain(one.id) == block.id)
        points = evidence.pop(words.plain(remedy.finding), [])  # once, at the first of its remedies
        quoted = []
        for named in _named(report, remedy, [block.text, *(one.text for one in points)]):
            if not any(one.file == named.file and abs(one.line - named.line) <= NEAR for one in shown):
                shown.append(named)
                quoted.append((place(named, report.run.cwd), _rows(quote(named), named.line)))
        steps.append((block, points, quoted))
    commands = {
        "again": f"bdoc run -o after-1.json {_command(report.run)}",
        "compare": f"bdoc compare {shlex.quote(profile)} after-1.json",
    }
    return written("prompt.md.j2", words.plain, encoding, d=document, steps=steps, ask=ASK, **commands)


def _rows(quoted: FunctionSource | str, at: int) -> list[str] | str:
    """The lines with their numbers and a mark at the one that is meant."""
    if isinstance(quoted, str):
        return quoted
    lines = enumerate(words.block(quoted.text), quoted.first)
    return [f"{'>' if number == at else ' '} {number:4}  {line}".rstrip() for number, line in lines]


def _command(run: RunSummary) -> str:
    """The words behind ``bdoc run`` that repeat the run, for as long as it went on if it was ended."""
    short = [f"--max-seconds={math.ceil(run.duration_s)}"] if run.stopped_by else []
    home, at = run.cwd.rstrip("/") + "/", 1 if run.command[1:2] == ["-m"] else 0
    if run.script in run.command[:2]:
        at = run.command.index(run.script)
    else:
        short += [] if at else ["--"]
    return shlex.join([*short, *(part.removeprefix(home) for part in run.command[at:])])


def _named(report: Report, remedy: Remedy, texts: list[str]) -> list[Location]:
    """The lines that a remedy, its finding and these texts name in the user's files."""
    found = [remedy.fix.location, *(one.location for one in report.findings if one.id == remedy.finding)]
    known = [*(one.location for one in report.findings), *(one.location for one in report.functions)]
    files = {one.file for one in known if one is not None}
    for file, line in LINE.findall(" ".join(texts)):
        whole = next((one for one in files if one == file or one.endswith(f"/{file}")), file)
        found.append(Location(whole, int(line)))
    return [one for one in found if one is not None and not INSTALLED.search(one.file)]
