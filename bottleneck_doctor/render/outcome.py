"""What the gate says: one line per threshold, with the measured value and its interval."""

from __future__ import annotations

from ..model.outcome import CANNOT_SAY, EXCEEDED, HOLDS, Judgement, Outcome, Regression
from . import words

SIGNS = {HOLDS: "ok  ", EXCEEDED: "FAIL", CANNOT_SAY: "?   "}


def outcome_lines(outcome: Outcome) -> list[str]:
    """The lines of one report's outcome, in the order the conditions were given."""
    lines = [_judgement(judgement) for judgement in outcome.judgements]
    return [*lines, _regression(outcome.regression)] if outcome.regression else lines


def _judgement(judgement: Judgement) -> str:
    condition = judgement.condition
    sign = SIGNS[judgement.status]
    limit = words.exact(condition.threshold, judgement.value)
    fails = f"fails when {condition.op} {limit} ({words.plain(condition.origin)})"
    if judgement.status == CANNOT_SAY or judgement.value is None:
        name = "" if condition.metric in judgement.why else f"{condition.metric}: "
        return f"{sign} cannot say: {name}{words.plain(judgement.why)}; {fails} [cannot-say]"
    close = "; close: the interval crosses the threshold" if judgement.close else ""
    return f"{sign} {words.plain(condition.metric)} = {_measured(judgement)}; {fails}{close}"


def _measured(judgement: Judgement) -> str:
    assert judgement.value is not None
    said = words.exact(judgement.value, judgement.condition.threshold)
    facts = []
    if judgement.low is not None and judgement.high is not None:
        facts.append(f"90 % interval {words.exact(judgement.low)}–{words.exact(judgement.high)}")
    facts += [f"n = {words.count(judgement.n)}"] if judgement.n else []
    return f"{said} ({', '.join(facts)})" if facts else said


def _regression(regression: Regression) -> str:
    sign = SIGNS[regression.status]
    fails = f"fails when slower than the baseline by more than {words.percent(regression.limit)}"
    if regression.change is None:
        return f"{sign} cannot say: {words.plain(regression.why)}; {fails} [cannot-say]"
    times = f"{words.seconds(regression.base_s)} → {words.seconds(regression.new_s)}"
    low, high = words.change(regression.low), words.change(regression.high)
    noisy = regression.status == HOLDS and regression.change > regression.limit
    tail = "; within the noise" if noisy else ""
    return f"{sign} step time {times}, {words.change(regression.change)} ({low} to {high}); {fails}{tail}"
