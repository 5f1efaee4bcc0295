"""Texts of check, compare and merge: a line for each threshold, each metric that moved, each late rank.

For CI systems: a job summary in markdown, JUnit XML, annotations of GitHub's.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

from ..model.code import Location
from ..model.loops import LATE_FOR, SlowRank
from ..model.report import (
    CANNOT_SAY,
    EXCEEDED,
    HOLDS,
    Comparison,
    Condition,
    Difference,
    Gate,
    Judgement,
    Move,
    Outcome,
    Regression,
    Remedy,
    Report,
    Verdict,
)
from . import words
from .compose import compose
from .document import Lengths
from .glossary import BOUNDS
from .head import best_of
from .markdown import cell, table
from .words import code, markdown

# Of a step; less is lost in the noise.
WORTH_SAYING = 0.01
SIGNS = {HOLDS: "ok  ", EXCEEDED: "FAIL", CANNOT_SAY: "?   "}
VERDICTS = {HOLDS: "holds", EXCEEDED: "fails", CANNOT_SAY: "cannot say"}


def gate_lines(gate: Gate) -> list[str]:
    """Every line of a check: each profile's, named where there are several, then the baseline's."""
    several = len(gate.checked) > 1
    lines = []
    for one in gate.checked:
        prefix = f"{words.plain(one.profile)}: " if several else ""
        lines += [prefix + line for line in outcome_lines(one.outcome)]
    if gate.regression is None:
        return lines
    lines.append(f"{SIGNS[gate.regression.status]} {regression_text(gate.regression)}")
    return lines + [f"     careful: {text}" for text in careful(gate.regression)]


def outcome_lines(outcome: Outcome) -> list[str]:
    """The lines of one report's outcome, in the order the conditions were given."""
    return [f"{SIGNS[one.status]} {judgement_text(one)}" for one in outcome.judgements]


def judgement_text(judgement: Judgement) -> str:
    """What was measured and when that fails, or why there is no result."""
    condition = judgement.condition
    limit = words.exact(condition.threshold, judgement.value)
    fails = f"fails when {condition.op} {limit} ({words.plain(condition.origin)})"
    if judgement.status == CANNOT_SAY or judgement.value is None:
        name = "" if condition.metric in judgement.why else f"{condition.metric}: "
        return f"cannot say: {name}{words.plain(judgement.why)}; {fails} [cannot-say]"
    close = "; close: the interval crosses the threshold" if judgement.close else ""
    return f"{words.plain(condition.metric)} = {measured(judgement)}; {fails}{close}"


def condition_text(condition: Condition) -> str:
    """The state that fails: ``data_wait_fraction > 0.2``."""
    return f"{words.plain(condition.metric)} {condition.op} {words.exact(condition.threshold)}"


def measured(judgement: Judgement) -> str:
    """The value, its interval and the number of steps behind it."""
    if judgement.value is None:
        return "not measured"
    value = words.exact(judgement.value, judgement.condition.threshold)
    facts = []
    if judgement.low is not None and judgement.high is not None:
        facts.append(f"90 % interval {words.exact(judgement.low)}–{words.exact(judgement.high)}")
    facts += [f"n = {words.count(judgement.n)}"] if judgement.n else []
    return f"{value} ({', '.join(facts)})" if facts else value


def regression_text(regression: Regression) -> str:
    """The change with its interval and the noise behind it, or why there is no result."""
    fails = f"fails when slower than the baseline by more than {words.percent(regression.limit)}"
    if regression.change is None:
        why = "; ".join([words.plain(regression.why), *map(difference_text, regression.differences)])
        names = " ".join(f"--allow-different {words.plain(one.what)}" for one in regression.differences)
        allow = f"; {names} overlooks that" if regression.refused and names else ""
        slug = "not-comparable" if regression.refused else "cannot-say"
        return f"cannot say: {why}{allow}; {fails} [{slug}]"
    return "; ".join([moved(regression), *noise_text(regression), fails]) + _blind(regression)


def moved(regression: Regression) -> str:
    """``step time 20.9 ms → 23.4 ms, +12 % (+8.1 % to +16 %)``; "" where nothing was compared."""
    if regression.change is None:
        return ""
    name = "step time" if regression.what == "step" else "time per sample"
    times = f"{words.seconds(regression.base_s)} → {words.seconds(regression.new_s)}"
    low, high = words.change(regression.low), words.change(regression.high)
    return f"{name} {times}, {words.change(regression.change)} ({low} to {high})"


def noise_text(regression: Regression) -> list[str]:
    """How many runs, by how much unchanged ones differ, and what other programs cost them."""
    runs = f"{words.counted(regression.base_runs, 'run')} against {words.count(regression.new_runs)}"
    differ = "are taken to differ" if regression.assumed else "differ"
    texts = [runs, f"unchanged runs {differ} by {words.percent(regression.noise)}"]
    shares = (regression.base_contended or 0.0, regression.new_contended or 0.0)
    if max(shares) >= WORTH_SAYING:
        lost = " and ".join(map(words.percent, shares))
        texts.append(f"other programs on the machine cost {lost} of it, not counted")
    return texts


def careful(regression: Regression) -> list[str]:
    """Differences between the two sides other than the code, if they were compared nevertheless."""
    return [] if regression.change is None else [difference_text(one) for one in regression.differences]


def _blind(regression: Regression) -> str:
    """The smallest regression that this check would detect, and how many repeats would detect ``wanted``."""
    if regression.status != HOLDS or regression.sees is None or regression.wanted is None:
        return ""
    noisy = regression.change is not None and regression.change > regression.limit
    tail = "; within the noise" if noisy else ""
    if regression.sees <= regression.wanted:
        return tail
    tail += f"; minimum detectable regression: {words.percent(regression.sees)}"
    wanted = words.percent(regression.wanted)
    if regression.repeats is None:
        return f"{tail} (the runs differ too much to detect {wanted})"
    return f"{tail} ({words.counted(regression.repeats, 'run')} per side would detect {wanted})"


LONGEST_FACT = 80
KINDS = {
    "better": "better",
    "worse": "worse",
    "moved": "moved",
    "noise": "within the noise",
    "unknown": "no interval",
    "absent": "measured in one run only",
}


def comparison_text(comparison: Comparison, encoding: str = "utf-8") -> str:
    """Lines that end in a newline; columns are as wide as what stands in them."""
    before, after = _verdict(comparison.base), _verdict(comparison.new)
    verdict = f"still {after}" if before == after else f"{before} → {after}"
    lines = [verdict, ""]
    rows = [_row(move) for move in sorted(comparison.moves, key=lambda move: list(KINDS).index(move.kind))]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(4)]
    lines += ["  ".join(map(str.ljust, row, [*widths, 0])) for row in rows]
    changes = [f"gone: {words.plain(', '.join(comparison.gone))}"] if comparison.gone else []
    changes += [f"new: {words.plain(', '.join(comparison.appeared))}"] if comparison.appeared else []
    changes += [f"careful: {difference_text(one)}" for one in comparison.differences]
    lines += ["", *changes] if changes else []
    return words.fit("\n".join(line.rstrip() for line in lines) + "\n", encoding)


def difference_text(difference: Difference) -> str:
    """``different cores: 4 and 8``."""
    before, after = (
        words.short(words.plain(side), LONGEST_FACT) if isinstance(side, str) else words.count(side)
        for side in (difference.base, difference.new)
    )
    return f"different {words.plain(difference.what)}: {before} and {after}"


def _verdict(verdict: Verdict) -> str:
    bound = BOUNDS.get(verdict.bound, words.plain(verdict.bound))
    return bound if verdict.cause == "none" else f"{bound}, {words.plain(verdict.cause)}"


def _row(move: Move) -> tuple[str, str, str, str, str]:
    before, after = (
        words.quantity(move.metric, one.value if one else None, one.unit if one else "")
        for one in (move.base, move.new)
    )
    return words.plain(move.metric), before, f"→ {after}", _change(move), KINDS[move.kind]


def _change(move: Move) -> str:
    """Shares move by points, everything else by a percentage of what it was."""
    if move.delta is None or move.base is None or move.base.value is None:
        return ""
    if move.metric.endswith(("_fraction", "_share")):
        return words.points(move.delta)
    return words.change(move.delta / move.base.value) if move.base.value else ""


LATE_AT_MOST = 8  # lines: more late ranks than that are counted


def merged_lines(ranks: int, hosts: int, world_size: int, late: Sequence[SlowRank] | None) -> list[str]:
    """The sum, then a line for each late rank; ``late`` is None if late ranks are not known."""
    missing = f", {world_size - ranks} of {world_size} missing" if world_size > ranks else ""
    lines = [f"{words.counted(ranks, 'rank')} on {words.counted(hosts, 'host')}{missing}"]
    if late is None:
        return [*lines, "late ranks are not known: no exchange was timed in the loops, or too few steps"]
    lines += [late_text(one) for one in late[:LATE_AT_MOST]]
    if len(late) > LATE_AT_MOST:
        lines.append(f"and {len(late) - LATE_AT_MOST} more that come late")
    return lines if late else [*lines, "no rank comes late step after step"]


def late_text(one: SlowRank) -> str:
    """The rank, how late it is, and what most of that time went into."""
    beyond, part = words.seconds(one.beyond_s), words.seconds(one.part_s)
    where = f"rank {one.rank.rank} on {words.plain(one.rank.host)}"
    others, busy = one.rank.foreign_cores, ""
    if one.cause == "cores" and others:
        busy = f", where others keep {words.count(others)} cores busy"
    return f"{where} comes {beyond} a step after the median rank: {part} of it {LATE_FOR[one.cause]}{busy}"


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
        verdict = f"{document.headline}: {document.head.claim}"
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
