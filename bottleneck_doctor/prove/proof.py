"""Puts together what was measured: one row an arm, best first, and which of them wins."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ..model.errors import UsageError
from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS
from ..model.proof import (
    BASELINE,
    CEILING,
    Arm,
    Attempt,
    Expected,
    Gain,
    Missed,
    Parity,
    Proof,
    ProofCost,
    Proved,
)
from ..model.report import Fix, Remedy, Report
from ..model.run import Trial
from .gains import gain_of, is_fair, noise_of, readings, verdict
from .plan import COMBINATION

SHAPE = re.compile(r"\s*([a-z0-9-]+)\s*([<>=!~]+)\s*(\S+)\s*", re.ASCII)
NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)", re.ASCII)
OPERATORS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
LONGEST = 100
NO_REMEDY = (COMBINATION, CEILING)  # rows of the table that are not remedies


def parse_expectation(text: str, known: Collection[str]) -> Expected:
    """``ID OP NUMBER``, a state that shall hold; ``known`` are the ids of all remedies."""
    shown = text if len(text) <= LONGEST else text[:LONGEST] + "..."
    found = SHAPE.fullmatch(text[:LONGEST])
    if found is None:
        raise UsageError(f"--expect {shown!r} is not ID OP NUMBER: write it like 'workers-auto>1.5'")
    name, op, number = found.groups()
    if op not in OPERATORS:
        raise UsageError(f"--expect {shown!r}: no operator {op}, use one of {' '.join(OPERATORS)}")
    check_id(name, [*known, *NO_REMEDY], "--expect")
    value = number.removeprefix("×").removesuffix("x")
    if NUMBER.fullmatch(value) is None or not math.isfinite(float(value)) or float(value) <= 0:
        raise UsageError(f"--expect {shown!r}: expected a speedup above 0, for example 1.5")
    return Expected(name, op, float(value))


def check_id(name: str, known: Collection[str], option: str) -> None:
    """Refuse an id that no remedy has, with the nearest that one has."""
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}" if near else "`bdoc explain` lists them"
    raise UsageError(f"{option} {name[:LONGEST]!r}: no such remedy, {hint}")


def judge(expected: Sequence[Expected], rows: Sequence[Proved], missed: dict[str, str]) -> list[Expected]:
    """Each expectation with its status. The likely value decides; an undecided row whose interval crosses the
    number cannot say, nor can one that was not measured. ``missed``: why some were not tried."""
    by_id = {row.id: row for row in rows}
    return [_judged(one, by_id.get(one.id), missed.get(one.id, "it was not tried")) for one in expected]


def _judged(one: Expected, row: Proved | None, missed: str) -> Expected:
    if row is None:
        return replace(one, status=CANNOT_SAY, why=missed)
    gain = row.measured
    if gain is None:
        return replace(one, status=CANNOT_SAY, why=row.why or f"it was {row.verdict}")
    holds = OPERATORS[one.op]
    close = len({holds(value, one.threshold) for value in (gain.low, gain.likely, gain.high)}) > 1
    if close and row.verdict == "undecided":
        why = "a larger --budget narrows the interval"
        return replace(one, status=CANNOT_SAY, measured=gain, why=why, close=True)
    status = HOLDS if holds(gain.likely, one.threshold) else EXCEEDED
    return replace(one, status=status, measured=gain, close=close)


Compare = Callable[[Sequence[Trial], Sequence[Trial]], Parity]
RANKS = ("kept", "undecided", "no gain", "worse")  # the order of the table; then what failed, then the rest
UNTRIED = "not-tried"
FATES = {"broke": "broke", "hung": "hung", "out-of-memory": "ran out of memory", "too-short": "was too short"}
UNCLOSED = "the training as it is was not run again after it"
UNREACHED = "no loss changed by a bit: the script may switch autocast itself where it computes"
MENTIONED = 0.03  # of the step (ours)
LEFT_OUT = "other programs used the cores meanwhile; what they added to each step is left out"
NOT_LEFT_OUT = "other programs used the cores meanwhile, and what they added is not known of every run"


def prove(
    report: Report,
    arms: Sequence[Arm],
    attempts: Sequence[Attempt],
    cost: ProofCost,
    missed: Sequence[Missed],
    notes: Sequence[str],
    expected: Sequence[Expected],
    compare: Compare,
) -> Proof:
    """The proof from all runs in their order. ``arms`` begin with the baseline."""
    remedies = {remedy.id: remedy for remedy in report.remedies}
    rows = [_row(arm, attempts, remedies, compare) for arm in arms if arm.kind != "baseline"]
    ceiling = next((row for row in rows if row.kind == "ceiling"), None)
    table = sorted((row for row in rows if row is not ceiling), key=_rank)
    bases = _measured(BASELINE, attempts)
    seen = readings(attempts)
    whys = {one.id: one.why for one in missed}
    return Proof(
        run=report.run,
        baseline_s=fmean(math.exp(one.log_s) for one in seen if one.arm == BASELINE) if bases else None,
        noise=noise_of(seen)[0] if len(seen) > 2 else None,
        steps=max((one.steps for one in bases), default=0),
        rows=table,
        ceiling=ceiling,
        winner=winner(table),
        cost=cost,
        missed=list(missed),
        notes=[*notes, *_lost(attempts), *_shared(attempts)],
        expected=judge(expected, rows, whys),
        attempts=[replace(one, trial=None) for one in attempts],
    )


def _lost(attempts: Sequence[Attempt]) -> list[str]:
    """Said where the script itself could not be measured when it was run again."""
    lost = [one for one in attempts if one.arm == BASELINE and one.outcome in FATES]
    if not lost or _measured(BASELINE, attempts):
        return []
    return [f"run again as it is, the training {FATES[lost[0].outcome]}: {lost[0].why}"]


def _shared(attempts: Sequence[Attempt]) -> list[str]:
    """Said where a share of the steps worth mentioning was other programs'."""
    measured = [one for one in attempts if one.outcome == "measured" and one.step_s and one.fair_s]
    taken = [1 - one.fair_s / one.step_s for one in measured if one.fair_s and one.step_s]
    if not taken or fmean(taken) < MENTIONED:
        return []
    return [LEFT_OUT if is_fair(attempts) else NOT_LEFT_OUT]


def winner(rows: Sequence[Proved]) -> str:
    """The kept row that measured best; several remedies at once only where they beat the best single one by
    more than the noise: what is simpler wins."""
    kept = [row for row in rows if row.verdict == "kept" and row.measured is not None]
    single = max((row for row in kept if row.kind == "remedy"), key=_likely, default=None)
    joint = max((row for row in kept if row.kind == "combination"), key=_likely, default=None)
    if joint is None or single is None:
        best = joint or single
        return best.id if best is not None else ""
    return joint.id if _beats(joint, single) else single.id


def _beats(joint: Proved, single: Proved) -> bool:
    assert joint.measured is not None and single.measured is not None
    reach = math.hypot(_reach(joint.measured), _reach(single.measured))
    return math.log(joint.measured.likely / single.measured.likely) > reach


def _reach(gain: Gain) -> float:
    """Half of the interval, in logarithms."""
    return math.log(gain.high / gain.low) / 2


def _likely(row: Proved) -> float:
    return row.measured.likely if row.measured is not None else 0.0


def _rank(row: Proved) -> tuple[int, float]:
    place = RANKS.index(row.verdict) if row.verdict in RANKS else len(RANKS) + (row.verdict == UNTRIED)
    return place, -_likely(row)


def _row(arm: Arm, attempts: Sequence[Attempt], remedies: Mapping[str, Remedy], compare: Compare) -> Proved:
    gain = gain_of(arm.id, readings(attempts, arm.scope))
    mine = [one for one in attempts if one.arm == arm.id]
    failed = next((one for one in mine if one.outcome not in ("measured", "interrupted")), None)
    word, why = (verdict(gain), "") if gain is not None else (UNTRIED, _untried(attempts))
    if gain is not None and not _is_closed(arm, attempts):
        word, why = "undecided", UNCLOSED
    parity = _parity(arm, attempts, compare)
    rounded = any(one.name == "autocast" for one in arm.treatments)
    if rounded and parity.word == "identical":
        gain, word, why = None, UNTRIED, UNREACHED
    if failed is not None:
        word, why = failed.outcome, failed.why
    named = [remedies[name] for name in arm.remedies if name in remedies]
    return Proved(
        id=arm.id,
        kind=arm.kind,
        title=arm.title,
        remedies=list(arm.remedies),
        apply=_hardest(named),
        predicted=arm.predicted,
        measured=gain if failed is None else None,
        verdict=word,
        why=why,
        parity=parity,
        memory_ratio=_memory(arm, attempts),
        scope=arm.scope,
        fix=_fix(named),
        treatments=list(arm.treatments),
    )


def _is_closed(arm: Arm, attempts: Sequence[Attempt]) -> bool:
    """Whether a baseline was measured after the arm, as one was before it: one alone may be the odd one."""
    first = next((place for place, one in enumerate(attempts) if one.arm == arm.id), 0)
    return all(_measured(BASELINE, side) for side in (attempts[:first], attempts[first:]))


def _untried(attempts: Sequence[Attempt]) -> str:
    if any(one.outcome == "interrupted" for one in attempts):
        return "it was interrupted before"
    lost = any(one.arm == BASELINE for one in attempts) and not _measured(BASELINE, attempts)
    return "the training as it is could not be measured" if lost else "the budget was spent before"


def _hardest(remedies: Sequence[Remedy]) -> str:
    levels = ("env", "hook", "hook~")
    return max((one.apply for one in remedies if one.apply in levels), key=levels.index, default="hook")


def _fix(remedies: Sequence[Remedy]) -> Fix | None:
    """That of the remedy; of several at once, what each asks for."""
    if len(remedies) <= 1:
        return remedies[0].fix if remedies else None
    snippets = [one.fix.snippet for one in remedies if one.fix.snippet]
    return Fix("; ".join(one.fix.text for one in remedies), "\n".join(snippets), remedies[0].fix.location)


def _parity(arm: Arm, attempts: Sequence[Attempt], compare: Compare) -> Parity:
    sides = [[one.trial for one in _measured(name, attempts) if one.trial] for name in (BASELINE, arm.id)]
    if not all(sides) or arm.kind == "ceiling":
        return Parity("unknown")
    return compare(sides[0], sides[1])


def _memory(arm: Arm, attempts: Sequence[Attempt]) -> float | None:
    """Of the peak of all processes, over the baseline's."""
    mine, bases = (
        [one.memory_bytes for one in _measured(name, attempts) if one.memory_bytes]
        for name in (arm.id, BASELINE)
    )
    return fmean(mine) / fmean(bases) if mine and bases else None


def _measured(arm: str, attempts: Sequence[Attempt]) -> list[Attempt]:
    return [one for one in attempts if one.arm == arm and one.outcome == "measured"]
