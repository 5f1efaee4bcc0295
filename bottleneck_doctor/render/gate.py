"""Texts of check, compare and merge: a line for each threshold, each metric that moved, each late rank.

For CI systems: a job summary in markdown, JUnit XML, annotations of GitHub's.
"""

from __future__ import annotations

import os.path
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

from ..model.code import Location
from ..model.loops import LATE_FOR, SlowRank
from ..model.report import (
    CANNOT_SAY,
    EXCEEDED,
    HOLDS,
    Checked,
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
)
from . import words
from .compose import compose, place
from .document import Lengths
from .head import advice_of, bound_of, head_of, verdict_of
from .markdown import written
from .words import markdown

WORTH_SAYING = 0.01  # of a step; less is lost in the noise
SIGNS = {HOLDS: "ok  ", EXCEEDED: "FAIL", CANNOT_SAY: "?   "}
VERDICTS = {HOLDS: "holds", EXCEEDED: "fails", CANNOT_SAY: "cannot say"}
# What moves a metric: the scope of a remedy, and how the cause begins that its finding has.
INPUT, EVALUATION = ("step input.", "run input.worker_startup"), ("run host.evaluation", "run input.")
ACTS = {
    "step_time_s": ("step ",), "steps_per_s": ("step ",), "samples_per_s": ("step ",), "mfu": ("step ",),
    "data_wait_fraction": INPUT, "exposed_data_wait_fraction": INPUT, "worker_busy_fraction": INPUT,
    "cores_per_gpu": INPUT, "iowait_fraction": ("step input.storage", "step input.network"),
    "gpu_busy_fraction": ("step input.", "step host.", "step comm.", "step device.transfer"),
    "checkpoint_fraction": ("step host.checkpoint",), "evaluation_fraction": EVALUATION,
    "evaluation_data_wait_fraction": EVALUATION, "evaluation_step_time_s": EVALUATION,
}  # fmt: skip


def gate_lines(gate: Gate) -> list[str]:
    """Every line of a check: each profile's, named where there are several, then the baseline's. What to do
    stands below the first of a script's repeats that fails, and below a regression."""
    several, told, lines = len(gate.checked) > 1, set[str | None](), list[str]()
    for one in gate.checked:
        prefix, script = f"{words.plain(one.profile)}: " if several else "", one.report.run.script
        lines += [prefix + line for line in outcome_lines(one.outcome)]
        lines += failed_lines(one.outcome, one.report) if script not in told else []
        told |= {script} if one.outcome.status == EXCEEDED else set()
    if gate.regression is None:
        return lines
    lines.append(f"{SIGNS[gate.regression.status]} {regression_text(gate.regression)}")
    lines += failed_lines(gate.regression, gate.checked[0].report)
    return list(dict.fromkeys([*lines, *(f"     careful: {text}" for text in careful(gate.regression))]))


def outcome_lines(outcome: Outcome) -> list[str]:
    """The lines of one report's outcome, in the order the conditions were given."""
    return [f"{SIGNS[one.status]} {judgement_text(one)}" for one in outcome.judgements]


def failed_lines(outcome: Outcome | Regression, report: Report) -> list[str]:
    """Of what fails the verdict, and what to do first about each metric that failed."""
    if outcome.status != EXCEEDED:
        return []
    judgements = outcome.judgements if isinstance(outcome, Outcome) else []
    failed = [one.condition.metric for one in judgements if one.status == EXCEEDED] or ["step_time_s"]
    lines = [f"{bound_of(report)}: {head_of(report).claim}", *(_advice_on(report, one) for one in failed)]
    return [f"     {line}" for line in dict.fromkeys(lines)]


def _advice_on(report: Report, metric: str) -> str:
    """The first remedy that acts on a metric, where it is applied and what it promises."""
    best = best_for(report, metric)
    if best is None:
        return f"no remedy in the report acts on {words.plain(metric)}"
    first, promise, _ = advice_of(report, best)
    where = place(best.fix.location, report.run.cwd)
    at = f", {where}" if where and where not in first else ""
    return first.replace("do first", "first") + at + promise


def best_for(report: Report, metric: str) -> Remedy | None:
    """The first remedy that is expected to help, of those that act on a metric."""
    causes = {one.id: one.cause for one in report.findings}
    kinds = ((one, f"{one.scope} {causes.get(one.finding, '')}") for one in report.remedies)
    acting = (one for one, kind in kinds if kind.startswith(ACTS.get(metric, ())))
    return next((one for one in acting if one.predicted_speedup.reach > 1), None)


def judgement_text(judgement: Judgement) -> str:
    """What was measured and when that fails, or why there is no result."""
    condition, fails = judgement.condition, _fails(judgement)
    if judgement.status == CANNOT_SAY or judgement.value is None:
        name = "" if condition.metric in judgement.why else f"{condition.metric}: "
        return f"cannot say: {name}{words.plain(judgement.why)}; {fails} [cannot-say]"
    close = "; close: the interval crosses the threshold" if judgement.close else ""
    return f"{words.plain(condition.metric)} = {measured(judgement)}; {fails}{close}"


def _fails(judgement: Judgement) -> str:
    condition = judgement.condition
    limit = words.exact(condition.threshold, judgement.value)
    return f"fails when {condition.op} {limit} ({words.plain(condition.origin)})"


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
    lost = _lost(regression)
    return [*texts, f"other programs on the machine cost {lost} of it, not counted"] if lost else texts


def _lost(regression: Regression) -> str:
    """``4 % and 31 %`` of both sides' steps, which other programs cost; "" where that is too little."""
    shares = (regression.base_contended or 0.0, regression.new_contended or 0.0)
    return " and ".join(map(words.percent, shares)) if max(shares) >= WORTH_SAYING else ""


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
    "better": "better", "worse": "worse", "moved": "moved", "noise": "within the noise",
    "unknown": "no interval", "absent": "measured in one run only",
}  # fmt: skip


def comparison_text(comparison: Comparison, regression: Regression, encoding: str = "utf-8") -> str:
    """Whether the new run is faster, as the gate sees it, then what moved: lines that end in a newline,
    columns as wide as what stands in them. Rows without news are left out."""
    moves = {move.metric: move for move in comparison.moves}
    before, after = verdict_of(comparison.base), verdict_of(comparison.new)
    lines = [
        _answer(regression, moves.get("data_wait_fraction")),
        f"still {after}" if before == after else f"{before} → {after}",
        "",
    ]
    wait = _values(moves.get("data_wait_fraction"))
    shown = [
        _row(move) for move in sorted(comparison.moves, key=lambda move: list(KINDS).index(move.kind))
        if _values(move) != (0, 0) and (move.metric != "exposed_data_wait_fraction" or _values(move) != wait)
    ]  # fmt: skip
    widths = [max((len(row[at]) for row in shown), default=0) for at in range(4)]
    lines += ["  ".join(map(str.ljust, row, [*widths, 0])) for row in shown]
    changes = [f"gone: {words.plain(', '.join(comparison.gone))}"] if comparison.gone else []
    changes += [f"new: {words.plain(', '.join(comparison.appeared))}"] if comparison.appeared else []
    changes += [f"careful: {difference_text(one)}" for one in comparison.differences]
    lines += ["", *changes] if changes else []
    return words.fit("\n".join(line.rstrip() for line in lines) + "\n", encoding)


def _values(move: Move | None) -> tuple[float | None, ...]:
    return tuple(side.value if side else None for side in (move.base, move.new)) if move else (None, None)


def _answer(regression: Regression, wait: Move | None) -> str:
    """``step 24.1 → 9.7 ms: ×2.48 faster; data wait 62 → 2 %``; of batches of two sizes, time per sample.
    The times are as measured, as in the table; what is judged lacks what other programs cost."""
    if regression.change is None or regression.low is None or regression.high is None:
        return f"cannot say which is faster: {words.plain(regression.why)}"
    sides = ((regression.base_s, regression.base_contended), (regression.new_s, regression.new_contended))
    before, after = (words.seconds((taken or 0.0) / (1 - (gone or 0.0))) for taken, gone in sides)
    text = "step " if regression.what == "step" else "time per sample "
    text += words.number_range(before, after, " → ")
    text += f"; without the {lost} that other programs cost" if (lost := _lost(regression)) else ""
    ratio = max(1 + regression.change, 1 / (1 + regression.change))
    shown = f"×{ratio:.2f}" if ratio < 10 else words.ratio(ratio)
    if regression.low <= 0 <= regression.high:
        text += ": no difference that these runs can show"
    else:
        text += f": {shown} {'faster' if regression.high < 0 else 'slower'}"
    refusing = " and ".join(difference_text(one) for one in regression.differences if one.refuses)
    text += f", with {refusing}" if refusing else ""
    if wait is not None and None not in _values(wait) and any(_values(wait)):
        ends = [words.quantity(wait.metric, one) for one in _values(wait)]
        text += f"; data wait {words.number_range(ends[0], ends[1], ' → ')}"
    return text


def difference_text(difference: Difference) -> str:
    """``different cores: 4 and 8``."""
    before, after = (
        words.short(words.plain(side), LONGEST_FACT) if isinstance(side, str) else words.count(side)
        for side in (difference.base, difference.new)
    )
    return f"different {words.plain(difference.what)}: {before} and {after}"


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


MOST_ROWS = 200  # GitHub drops a step's whole summary beyond 1 MiB
MOST_VERDICTS = 5
LENGTHS = Lengths(remedies=3)
MARKS = {HOLDS: "✅", EXCEEDED: "❌", CANNOT_SAY: "❔"}


def summary(gate: Gate) -> str:
    """A page that ends in an empty line: every threshold, the noise, and what limits each job, as its first
    repeat of that cause says."""
    rows, notes = [], list[str]()
    for one in gate.checked:
        for judgement in one.outcome.judgements:
            unknown = judgement.status == CANNOT_SAY
            value = f"cannot say: {judgement.why}" if unknown else measured(judgement)
            rows.append((MARKS[judgement.status], one.profile, condition_text(judgement.condition), value))
    kept, more = rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS)
    if (regression := gate.regression) is not None:
        fails = f"slower by more than {words.percent(regression.limit)}"
        value = moved(regression) or f"cannot say: {regression.why}"
        kept.append((MARKS[regression.status], "", fails, value))
        notes = [regression_text(regression)] if regression.change is None else noise_text(regression)
        notes += [f"careful: {difference}" for difference in careful(regression)]
    firsts = dict[tuple[str | None, str], Checked]()
    for one in gate.checked:
        firsts.setdefault((one.report.run.script, one.report.verdict.cause), one)
    shown = [(one.profile, compose(one.report, LENGTHS)) for one in [*firsts.values()][:MOST_VERDICTS]]
    told = {"outcome": VERDICTS[gate.status], "rows": kept, "more": more, "notes": notes, "verdicts": shown}
    return written("summary.md.j2", markdown, "utf-8", **told) + "\n"


Case = tuple[str, str, str, str, bool, str, list[str], list[str]]


def junit(gate: Gate, version: str) -> bytes:
    """One test suite: a test for each profile and condition, and one for the baseline. UTF-8."""
    cases, properties = list[Case](), [("bdoc", version), ("gate", VERDICTS[gate.status])]
    for one in gate.checked:
        wait = one.report.metrics.get("data_wait_fraction")
        found = f"{verdict_of(one.report)}: {head_of(one.report).claim}"
        properties.append((f"verdict of {one.profile}", found))
        if wait is not None and wait.value is not None:
            properties.append((f"data_wait_fraction of {one.profile}", words.exact(wait.value)))
        took = f"{one.report.run.duration_s:.3f}"
        for judgement in one.outcome.judgements:
            more = failed_lines(Outcome(judgement.status, [judgement]), one.report)
            name = f"fails when {condition_text(judgement.condition)} ({judgement.condition.origin})"
            failed, error = judgement.status == EXCEEDED, "cannot-say" * (judgement.status == CANNOT_SAY)
            cases.append((name, one.profile, took, judgement_text(judgement), failed, error, more, []))
    if (regression := gate.regression) is not None:
        name = f"fails when slower than the baseline by more than {words.percent(regression.limit)}"
        slug = "not-comparable" if regression.refused else "cannot-say"
        failed, error = regression.status == EXCEEDED, slug * (regression.status == CANNOT_SAY)
        text, more = regression_text(regression), failed_lines(regression, gate.checked[0].report)
        cases.append((name, "baseline", "0", text, failed, error, more, careful(regression)))
    time = f"{sum(one.report.run.duration_s for one in gate.checked):.3f}"
    return written("junit.xml.j2", _xml, "utf-8", cases=cases, properties=properties, time=time).encode()


def _xml(text: str) -> str:
    return escape(words.plain(text), {'"': "&quot;"})


MOST = 10  # GitHub shows ten of a kind for each step of a job and drops the rest without notice
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
    """Workflow commands, errors first and at most ``MOST``; paths relative to ``workspace``. A remedy that an
    error names at its line is no notice there."""
    found = list(_failures(gate, workspace))
    said = {(one.file, one.line, one.message.rpartition("\n")[2]) for one in found}
    found += [one for one in _advice(gate, workspace) if (one.file, one.line, one.message) not in said]
    return [_command(one) for one in sorted(found, key=lambda one: LEVELS.index(one.level))[:MOST]]


def _failures(gate: Gate, workspace: str) -> Iterator[Annotation]:
    """A failed condition, at the line most to blame; one without a result, at no line. Repeats are one."""
    if (regression := gate.regression) is not None and regression.status != HOLDS:
        level, title = "error", "bdoc: slower than the baseline"
        if regression.status == CANNOT_SAY:
            level, title = "warning", "bdoc: cannot say whether it is slower than the baseline"
        more = failed_lines(regression, gate.checked[0].report)[1:]
        yield Annotation(level, title, "\n".join([regression_text(regression), *map(str.strip, more)]))
    jobs = Counter(one.report.run.script for one in gate.checked)
    alike = defaultdict[tuple[str | None, Condition, int], list[tuple[Report, Judgement]]](list)
    for one in gate.checked:
        for found in one.outcome.judgements:
            alike[one.report.run.script, found.condition, found.status].append((one.report, found))
    for (script, condition, status), pairs in alike.items():
        report, text = pairs[0][0], _together([found for _, found in pairs], jobs[script])
        if status == EXCEEDED:
            best = best_for(report, condition.metric)
            text += f"\n{_remedy(best) if best else _advice_on(report, condition.metric)}"
            line = _blamed(report, best, workspace)
            yield Annotation("error", f"bdoc: {condition_text(condition)}", text, *line)
        elif status == CANNOT_SAY:
            yield Annotation("warning", "bdoc: cannot say", text)


def _together(judgements: list[Judgement], runs: int) -> str:
    """What one run shows; of repeats ``2 of 5 runs: 0.8–0.84; fails when > 0.2 (--max-data-wait)``."""
    first, values = judgements[0], [one.value for one in judgements if one.value is not None]
    text = judgement_text(first)
    if runs == 1:
        return text
    if first.status != CANNOT_SAY:
        ends = (words.exact(end, first.condition.threshold) for end in (min(values), max(values)))
        text = f"{words.number_range(*ends)}; {_fails(first)}"
    return f"{len(judgements)} of {runs} runs: {text}"


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
    promise = words.promised(remedy.predicted_speedup)
    known = remedy.predicted_speedup.likely is not None
    return f"{title} ({f'{promise} predicted' if known else f'not predicted, {promise}'}): {fix}"


def _blamed(report: Report, best: Remedy | None, workspace: str) -> tuple[str, int]:
    """The line of the finding that the best remedy answers, else of a primary one, else that of a remedy; the
    first that lies in the workspace."""
    places = [finding.location for finding in report.findings if best and finding.id == best.finding]
    places += [finding.location for finding in report.findings if finding.severity == "primary"]
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
