"""The gate for CI systems: a job summary in markdown, JUnit XML, annotations of GitHub's."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from ..model.code import Location
from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS, Gate, Regression
from ..model.report import Remedy, Report
from . import words
from .compose import best_of, compose
from .document import Lengths
from .gate import (
    VERDICTS,
    careful,
    condition_text,
    judgement_text,
    measured,
    moved,
    noise_text,
    regression_text,
)
from .markdown import cell, table
from .words import code, markdown

# GitHub drops a step's whole summary beyond this.
LARGEST_BYTES = 1 << 20
MOST_ROWS = 200
MOST_VERDICTS = 5
LENGTHS = Lengths(remedies=3)
MARKS = {HOLDS: "✅", EXCEEDED: "❌", CANNOT_SAY: "❔"}


def summary(gate: Gate, room_bytes: int = LARGEST_BYTES) -> str:
    """A page that ends in an empty line and takes at most ``room_bytes`` of UTF-8; "" where nothing fits."""
    parts = [
        f"## bdoc check: {VERDICTS[gate.status]}",
        _rows(gate),
        *_noise_lines(gate.regression),
        *_verdicts(gate),
    ]
    while parts:
        page = "\n\n".join(part for part in parts if part) + "\n\n"
        page = page.encode("utf-8", "backslashreplace").decode()
        if len(page.encode()) <= room_bytes:
            return page
        parts.pop()  # what comes last matters least
    return ""


def _rows(gate: Gate) -> str:
    """Each profile and threshold, and the baseline, as a row."""
    pairs = [(one, judgement) for one in gate.checked for judgement in one.outcome.judgements]
    rows = []
    for one, judgement in pairs[:MOST_ROWS]:
        value = measured(judgement) if judgement.status != CANNOT_SAY else f"cannot say: {judgement.why}"
        failing = code(condition_text(judgement.condition))
        rows.append((MARKS[judgement.status], cell(code(one.profile)), cell(failing), cell(markdown(value))))
    if (regression := gate.regression) is not None:
        fails = f"slower by more than {words.percent(regression.limit)}"
        value = cell(markdown(moved(regression) or f"cannot say: {regression.why}"))
        rows.append((MARKS[regression.status], "against the baseline", fails, value))
    drawn = table(("", "what", "fails when", "measured"), rows, numbers=False)
    more = len(pairs) - MOST_ROWS
    return f"{drawn}\n\n{words.counted(more, 'more row')}" if more > 0 else drawn


def _noise_lines(regression: Regression | None) -> Iterator[str]:
    """The noise behind the comparison, and what else differs."""
    if regression is None:
        return
    texts = [regression_text(regression)] if regression.change is None else noise_text(regression)
    texts += [f"careful: {difference}" for difference in careful(regression)]
    yield "\n".join(f"- {markdown(text)}" for text in texts)


def _verdicts(gate: Gate) -> Iterator[str]:
    """What limits each run and what to change first; equal texts of repeats once."""
    shown: set[str] = set()
    for one in gate.checked[:MOST_ROWS]:
        document = compose(one.report, LENGTHS)
        verdict = f"{document.headline}: {document.summary}"
        if verdict in shown or len(shown) == MOST_VERDICTS:
            continue
        shown.add(verdict)
        lines = [f"**{markdown(verdict)}** ({code(one.profile)})", ""]
        for rank, block in enumerate(document.remedies, start=1):
            place = f" at {code(block.place)}" if block.place else ""
            lines.append(
                f"{rank}. {markdown(block.title)}: **{block.likely}** ({markdown(block.basis)}){place}"
            )
        yield "\n".join(lines).rstrip()


SUITE = "bdoc check"


def junit(gate: Gate, version: str) -> bytes:
    """One test suite: a test for each profile and condition, and one for the baseline. UTF-8."""
    cases, duration_s = [], 0.0
    for one in gate.checked:
        took_s = one.report.run.duration_s
        duration_s += took_s
        for judgement in one.outcome.judgements:
            origin = words.plain(judgement.condition.origin)
            name = f"fails when {condition_text(judgement.condition)} ({origin})"
            case = _case(name, words.plain(one.profile), f"{took_s:.3f}")
            cases.append(_judged(case, judgement.status, judgement_text(judgement)))
    if (regression := gate.regression) is not None:
        name = f"fails when slower than the baseline by more than {words.percent(regression.limit)}"
        case, text = _case(name, "baseline", "0"), regression_text(regression)
        cases.append(_judged(case, regression.status, text, refused=regression.refused))
        for difference in careful(regression):
            ElementTree.SubElement(case, "system-out").text = f"careful: {difference}"
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
        "skipped": 0,
    }
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name=SUITE, time=f"{duration_s:.3f}")
    suite.attrib.update({name: str(count) for name, count in counts.items()})
    suite.append(_properties(gate, version))
    suite.extend(cases)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _properties(gate: Gate, version: str) -> ElementTree.Element:
    """bdoc's version, the gate's outcome, and the verdict and data wait of each profile."""
    found = ElementTree.Element("properties")
    pairs = [("bdoc", version), ("gate", VERDICTS[gate.status])]
    for one in gate.checked:
        verdict = one.report.verdict
        pairs.append((f"verdict of {one.profile}", f"{verdict.bound}, {verdict.cause}: {verdict.summary}"))
        wait = one.report.metrics.get("data_wait_fraction")
        if wait is not None and wait.value is not None:
            pairs.append((f"data_wait_fraction of {one.profile}", words.exact(wait.value)))
    for name, value in pairs:
        ElementTree.SubElement(found, "property", name=words.plain(name), value=words.plain(value))
    return found


def _case(name: str, classname: str, time: str) -> ElementTree.Element:
    return ElementTree.Element("testcase", name=name, classname=classname, time=time)


def _judged(case: ElementTree.Element, status: int, text: str, refused: bool = False) -> ElementTree.Element:
    """The case with its failure or error; a condition that holds has its numbers as output."""
    if status == EXCEEDED:
        ElementTree.SubElement(case, "failure", type="exceeded", message=text).text = text
    elif status == CANNOT_SAY:
        slug = "not-comparable" if refused else "cannot-say"
        ElementTree.SubElement(case, "error", type=slug, message=text).text = text
    else:
        ElementTree.SubElement(case, "system-out").text = text
    return case


# GitHub shows ten of a kind for each step of a job and drops the rest without notice.
MOST = 10
LONGEST = 1000
ADVICE = 3


LEVELS = ("error", "warning", "notice")


class Annotation(NamedTuple):
    """One mark; ``file`` is "" if no line of the workspace applies."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0


def github(gate: Gate, workspace: str) -> list[str]:
    """Workflow commands, errors first and at most ``MOST``; paths relative to ``workspace``."""
    found = list(dict.fromkeys([*_failures(gate, workspace), *_advice(gate, workspace)]))
    return [_command(one) for one in sorted(found, key=lambda one: LEVELS.index(one.level))[:MOST]]


def _failures(gate: Gate, workspace: str) -> Iterator[Annotation]:
    """A failed condition, at the line most to blame; one without a result, at no line."""
    regression = gate.regression
    if regression is not None and regression.status == EXCEEDED:
        yield Annotation("error", "bdoc: slower than the baseline", regression_text(regression))
    elif regression is not None and regression.status == CANNOT_SAY:
        title = "bdoc: cannot say whether it is slower than the baseline"
        yield Annotation("warning", title, regression_text(regression))
    for one in gate.checked:
        name = f"{words.plain(one.profile)}: " if len(gate.checked) > 1 else ""
        for judgement in one.outcome.judgements:
            text = name + judgement_text(judgement)
            if judgement.status == EXCEEDED:
                best = best_of(one.report)
                text += f"\n{_remedy(best)}" if best else ""
                title = f"bdoc: {condition_text(judgement.condition)}"
                yield Annotation("error", title, text, *_blamed(one.report, workspace))
            elif judgement.status == CANNOT_SAY:
                yield Annotation("warning", "bdoc: cannot say", text)


def _advice(gate: Gate, workspace: str) -> Iterator[Annotation]:
    """The best remedies at their lines; if several repeats advise the same there, the first one's text."""
    shown: set[tuple[str, tuple[str, int]]] = set()
    for one in gate.checked:
        for remedy in one.report.remedies[:ADVICE]:
            place = _place(remedy.fix.location, one.report, workspace)
            if remedy.predicted_speedup.reach > 1 and place[0] and (remedy.id, place) not in shown:
                shown.add((remedy.id, place))
                yield Annotation("notice", f"bdoc: {words.plain(remedy.id)}", _remedy(remedy), *place)


def _remedy(remedy: Remedy) -> str:
    title, fix = words.capital(words.plain(remedy.title)), words.plain(remedy.fix.text)
    return f"{title} ({words.promised(remedy.predicted_speedup)} predicted): {fix}"


def _blamed(report: Report, workspace: str) -> tuple[str, int]:
    """The line of a primary finding, else that of the best remedy; the first that lies in the workspace."""
    places = [finding.location for finding in report.findings if finding.severity == "primary"]
    places += [remedy.fix.location for remedy in report.remedies]
    known = (_place(place, report, workspace) for place in places)
    return next((place for place in known if place[0]), ("", 0))


def _place(location: Location | None, report: Report, workspace: str) -> tuple[str, int]:
    """File, relative to the workspace, and line; ("", 0) for what lies outside, which GitHub cannot show."""
    if location is None or not location.file or location.line < 1:
        return "", 0
    file = os.path.normpath(os.path.join(report.run.cwd, location.file))
    seen = os.path.relpath(file, workspace) if os.path.isabs(file) and workspace else file
    outside = os.path.isabs(seen) or seen.split(os.sep)[0] == os.pardir
    # Control characters or undecodable bytes in a name could act as commands in the log.
    return ("", 0) if outside or not seen.isprintable() else (seen, location.line)


def _command(annotation: Annotation) -> str:
    """``::error file=a.py,line=3,title=b::c``, with what would end a part escaped as GitHub reads it."""
    properties = [("file", annotation.file), ("line", str(annotation.line))] if annotation.file else []
    properties.append(("title", annotation.title))
    before = ",".join(
        f"{name}={_data(value).replace(':', '%3A').replace(',', '%2C')}" for name, value in properties
    )
    message = "\n".join(words.short(words.plain(line), LONGEST) for line in annotation.message.split("\n"))
    return f"::{annotation.level} {before}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
