"""Texts of check, compare and merge: a line for each threshold, each metric that moved, each late rank."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.gate import (
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
)
from ..model.loops import LATE_FOR, SlowRank
from ..model.report import Verdict
from . import words
from .glossary import BOUNDS

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
