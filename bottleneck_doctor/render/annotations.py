"""The gate as GitHub workflow commands: marks on the user's own lines in a pull request."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from dataclasses import dataclass

from ..model.code import Location
from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS, Checked, Gate
from ..model.report import Remedy, Report
from . import words
from .outcome import condition_text, judgement_text, regression_text

# GitHub shows ten of a kind for each step of a job and drops the rest in silence.
MOST = 10
LONGEST = 1000
ADVICE = 3


@dataclass(frozen=True)
class Annotation:
    """One mark. level: error, warning or notice. ``file`` is "" where no line of the workspace is meant."""

    level: str
    title: str
    message: str
    file: str = ""
    line: int = 0


def github(gate: Gate, workspace: str) -> list[str]:
    """Workflow commands, the gravest first and at most ``MOST``; paths relative to ``workspace``."""
    found = dict.fromkeys([*_regression(gate), *_conditions(gate, workspace), *_advice(gate, workspace)])
    return [_command(one) for one in sorted(found, key=_gravity)[:MOST]]


def _gravity(annotation: Annotation) -> int:
    return ("error", "warning", "notice").index(annotation.level)


def _regression(gate: Gate) -> Iterator[Annotation]:
    regression = gate.regression
    if regression is None or regression.status == HOLDS:
        return
    level, title = (
        ("error", "slower than the baseline")
        if regression.status == EXCEEDED
        else ("warning", "cannot say whether it is slower than the baseline")
    )
    yield Annotation(level, f"bdoc: {title}", regression_text(regression))


def _conditions(gate: Gate, workspace: str) -> Iterator[Annotation]:
    """What failed, at the line that is most to blame; what cannot be said, at no line."""
    for one in gate.checked:
        for judgement in one.outcome.judgements:
            text = f"{_whose(one, gate)}{judgement_text(judgement)}"
            if judgement.status == EXCEEDED:
                title = f"bdoc: {condition_text(judgement.condition)}"
                yield Annotation("error", title, text + _remedy(one.report), *_blamed(one.report, workspace))
            elif judgement.status == CANNOT_SAY:
                yield Annotation("warning", "bdoc: cannot say", text)


def _advice(gate: Gate, workspace: str) -> Iterator[Annotation]:
    """The best remedies at their lines; of what several repeats advise there, the first one's words."""
    told: set[tuple[str, tuple[str, int]]] = set()
    for one in gate.checked:
        for remedy in one.report.remedies[:ADVICE]:
            if remedy.predicted_speedup.reach > 1:
                place = _place(remedy.fix.location, one.report, workspace)
                if place[0] and (remedy.id, place) not in told:
                    told.add((remedy.id, place))
                    title = f"bdoc: {words.plain(remedy.id)}"
                    yield Annotation("notice", title, _cure(remedy), *place)


def _whose(one: Checked, gate: Gate) -> str:
    return f"{words.plain(one.profile)}: " if len(gate.checked) > 1 else ""


def _remedy(report: Report) -> str:
    best = next((remedy for remedy in report.remedies if remedy.predicted_speedup.reach > 1), None)
    return f"\n{_cure(best)}" if best else ""


def _cure(remedy: Remedy) -> str:
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
    # A name with control signs or undecodable bytes cannot be said in a log without doing something there.
    return ("", 0) if outside or not seen.isprintable() else (seen, location.line)


def _command(annotation: Annotation) -> str:
    """``::error file=a.py,line=3,title=b::c``, with what would end a part escaped as GitHub reads it."""
    properties = [("file", annotation.file), ("line", str(annotation.line))] if annotation.file else []
    said = ",".join(
        f"{name}={_property(value)}" for name, value in [*properties, ("title", annotation.title)]
    )
    message = "\n".join(words.short(words.plain(line), LONGEST) for line in annotation.message.split("\n"))
    return f"::{annotation.level} {said}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
