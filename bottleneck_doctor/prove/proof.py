"""Puts together what was measured: one row an arm, best first, and which of them wins."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from ..analyse.compare import parity
from ..analyse.predict import WORTH
from ..model.errors import UsageError
from ..model.proof import BASELINE, Arm, Attempt, Missed, Parity, Proof, ProofCost, Proved
from ..model.report import Fix, Remedy, Report
from .plan import gain_of, is_fair, noise_of, readings, verdict

LONGEST = 100


def check_id(name: str, known: Collection[str], option: str) -> None:
    """Refuse an id that no remedy has, with the nearest that one has."""
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}" if near else "`bdoc explain` lists them"
        raise UsageError(f"{option} {name[:LONGEST]!r}: no such remedy, {hint}")


RANKS = ("kept", "undecided", "no gain", "worse")  # the order of the table; then what failed, then the rest
UNTRIED = "not-tried"
FATES = {"broke": "broke", "hung": "hung", "out-of-memory": "ran out of memory", "too-short": "was too short"}
UNCLOSED = "the training as it is was not run again after it"
UNREACHED = "no loss changed by a bit: the script may switch autocast itself where it computes"
LEFT_OUT = "other programs used the cores at the same time; what they added to each step is left out"
NOT_LEFT_OUT = "other programs used the cores at the same time, and what they added is not known of every run"


def prove(
    report: Report,
    arms: Sequence[Arm],
    attempts: Sequence[Attempt],
    cost: ProofCost,
    missed: Sequence[Missed],
    notes: Sequence[str],
) -> Proof:
    """The proof from all runs in their order. ``arms`` begin with the baseline."""
    remedies = {remedy.id: remedy for remedy in (*report.remedies, *report.warnings)}
    rows = [_row(arm, attempts, remedies) for arm in arms if arm.kind != "baseline"]
    ceiling = next((row for row in rows if row.kind == "ceiling"), None)

    def rank(row: Proved) -> tuple[int, float]:
        place = RANKS.index(row.verdict) if row.verdict in RANKS else len(RANKS) + (row.verdict == UNTRIED)
        return place, -_likely(row)

    table = sorted((row for row in rows if row is not ceiling), key=rank)
    bases = _measured(BASELINE, attempts)
    seen = readings(attempts)
    notes = list(notes)
    lost = [one for one in attempts if one.arm == BASELINE and one.outcome in FATES]
    if lost and not bases:
        notes.append(f"run again as it is, the training {FATES[lost[0].outcome]}: {lost[0].why}")
    measured = [one for one in attempts if one.outcome == "measured"]
    taken = [1 - one.fair_s / one.step_s for one in measured if one.fair_s and one.step_s]
    if taken and fmean(taken) >= WORTH - 1:
        notes.append(LEFT_OUT if is_fair(attempts) else NOT_LEFT_OUT)
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
        notes=notes,
        attempts=[replace(one, trial=None) for one in attempts],
    )


def winner(rows: Sequence[Proved]) -> str:
    """The kept row that measured best; several remedies at once only where they beat the best single one by
    more than the noise: what is simpler wins."""
    kept = [row for row in rows if row.verdict == "kept" and row.measured is not None]
    single = max((row for row in kept if row.kind == "remedy"), key=_likely, default=None)
    joint = max((row for row in kept if row.kind == "combination"), key=_likely, default=None)
    if joint is None or single is None:
        best = joint or single
        return best.id if best is not None else ""
    gains = [one.measured for one in (joint, single) if one.measured is not None]
    reach = math.hypot(*(math.log(gain.high / gain.low) / 2 for gain in gains))
    return joint.id if math.log(_likely(joint) / _likely(single)) > reach else single.id


def _likely(row: Proved) -> float:
    return row.measured.likely if row.measured is not None else 0.0


def _measured(arm: str, attempts: Sequence[Attempt]) -> list[Attempt]:
    return [one for one in attempts if one.arm == arm and one.outcome == "measured"]


def _row(arm: Arm, attempts: Sequence[Attempt], remedies: Mapping[str, Remedy]) -> Proved:
    mine, bases = _measured(arm.id, attempts), _measured(BASELINE, attempts)
    gain = gain_of(arm.id, readings(attempts, arm.scope))
    if gain is None:
        word, why = UNTRIED, "the budget was spent before"
        if any(one.outcome == "interrupted" for one in attempts):
            why = "it was interrupted before"
        elif any(one.arm == BASELINE for one in attempts) and not bases:
            why = "the training as it is could not be measured"
    else:
        word, why = verdict(gain), ""
        first = next((place for place, one in enumerate(attempts) if one.arm == arm.id), 0)
        if not all(_measured(BASELINE, side) for side in (attempts[:first], attempts[first:])):
            word, why = "undecided", UNCLOSED  # a single baseline may be the odd one
    trials = [[one.trial for one in side if one.trial] for side in (bases, mine)]
    compared = all(trials) and arm.kind != "ceiling"
    losses = parity(*trials) if compared else Parity("unknown")
    if losses.word == "identical" and any(one.name == "autocast" for one in arm.treatments):
        gain, word, why = None, UNTRIED, UNREACHED
    failed = next(
        (one for one in attempts if one.arm == arm.id and one.outcome not in ("measured", "interrupted")),
        None,
    )
    if failed is not None:
        gain, word, why = None, failed.outcome, failed.why
    held = [[one.memory_bytes for one in side if one.memory_bytes] for side in (mine, bases)]
    named = [remedies[name] for name in arm.remedies if name in remedies]
    levels = ("env", "hook", "hook~")
    return Proved(
        id=arm.id,
        kind=arm.kind,
        title=arm.title,
        remedies=list(arm.remedies),
        apply=max((one.apply for one in named if one.apply in levels), key=levels.index, default="hook"),
        predicted=arm.predicted,
        measured=gain,
        verdict=word,
        why=why,
        parity=losses,
        memory_ratio=fmean(held[0]) / fmean(held[1]) if all(held) else None,
        scope=arm.scope,
        fix=_fix(named),
        treatments=list(arm.treatments),
    )


def _fix(remedies: Sequence[Remedy]) -> Fix | None:
    """That of the remedy; of several at once, what each asks for."""
    if len(remedies) <= 1:
        return remedies[0].fix if remedies else None
    snippets = [one.fix.snippet for one in remedies if one.fix.snippet]
    return Fix("; ".join(one.fix.text for one in remedies), "\n".join(snippets), remedies[0].fix.location)
