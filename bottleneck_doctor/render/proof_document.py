"""From a proof to what is said about it: every number in words, every foreign string made harmless."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.proof import BASELINE, CEILING, Expected, Gain, Missed, Parity, Proof, ProofCost, Proved
from . import words
from .compose import command_line, machine_facts, place
from .glossary import BASES


@dataclass(frozen=True)
class TrialRow:
    """One thing that was tried, every number in words; ``notes`` are sentences about it.

    ``range`` and ``interval`` are of ``predicted`` and ``measured``, "" where there is none; ``won`` is the
    row that the headline is about.
    """

    name: str
    predicted: str
    range: str
    measured: str
    interval: str
    losses: str
    memory: str
    verdict: str
    mood: str
    won: bool = False
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Advised:
    """What to change: the lines of a unified diff, or where there is none why, and the snippet."""

    place: str = ""
    text: str = ""
    diff: list[str] = field(default_factory=list)
    why: str = ""
    snippet: list[str] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class ProofDocument:
    """A proof in words. ``mood`` is that of its headline: good, bad, open or plain; an expectation has one,
    too, before its text."""

    headline: str
    figures: str
    mood: str
    grounds: list[str]
    command: str
    circumstances: list[str]
    before: str
    rows: list[TrialRow]
    ceiling: str
    missed: list[tuple[str, str]]
    notes: list[str]
    expected: list[tuple[str, str]]
    advised: Advised | None
    cost: str


LONGEST_DIFF = 60  # lines; the rest is in the file that --write-patch makes
LONGEST_WHY = 300
NOISY = 0.1  # between runs, from which it is worth a line (ours)
NO_ROOM = 1.05  # a ceiling below it: input limits nothing [contract: what limits anything]
MOODS = {"kept": "good", "no gain": "plain", "undecided": "open", "not-tried": "plain"}  # others are bad
LOSSES = {"order": "reordered"}
SAID = {
    "identical": "losses identical",
    "order": "losses the same up to the order of batches",
    "changed": "losses changed",
    "unknown": "losses not compared",
}
EXPECTED = {0: ("good", "holds"), 1: ("bad", "fails"), 3: ("open", "cannot say")}
TRIED = ("remedy", "combination")


def compose(proof: Proof) -> ProofDocument:
    """The proof in words."""
    winner = next((row for row in proof.rows if proof.winner and row.id == proof.winner), None)
    headline, figures, mood = _headline(proof, winner)
    return ProofDocument(
        headline=headline,
        figures=figures,
        mood=mood,
        grounds=_grounds(proof, winner) if winner is not None else [],
        command=command_line(proof.run),
        circumstances=machine_facts(proof.run),
        before=_before(proof),
        rows=[_row(row, row is winner) for row in proof.rows if row.kind in TRIED],
        ceiling=_ceiling(proof.ceiling),
        missed=_missed(proof.missed),
        notes=[*map(words.plain, proof.notes), *_unquiet(proof.noise)],
        expected=[expected(one) for one in proof.expected],
        advised=_advised(winner, proof.run.cwd) if winner is not None else None,
        cost=_cost(proof.cost),
    )


def _missed(missed: list[Missed]) -> list[tuple[str, str]]:
    """The remedies that were not tried, those with one reason together."""
    reasons: dict[str, list[str]] = {}
    for one in missed:
        reasons.setdefault(_why(one.why), []).append(words.plain(one.id))
    return [(", ".join(names), why) for why, names in reasons.items()]


def _headline(proof: Proof, winner: Proved | None) -> tuple[str, str, str]:
    """What to change and what it brings, measured; or that nothing is known to."""
    if winner is not None and winner.measured is not None:
        likely, interval = gained(winner.measured)
        of_run = " of the whole run" if winner.scope == "run" else ""
        figures = f"{likely}{of_run}, measured ({interval})"
        return words.capital(words.plain(_title(proof, winner))), figures, "good"
    tried = [row for row in proof.rows if row.kind in TRIED and row.verdict != "not-tried"]
    measured = [row for row in tried if row.measured is not None]
    if not tried:
        return "Nothing was tried", "", "plain"
    if not measured:
        return f"Cannot say: {_of(tried, 'tried')} could not be measured", "", "bad"
    undecided = [row for row in measured if row.verdict == "undecided"]
    if undecided:
        return f"Undecided: {_of(undecided, 'tried')} may pay or not", "", "open"
    said = f"Nothing to change: {_of(measured, 'measured')} {'does' if len(measured) == 1 else 'do'}"
    return f"{said} not make the training faster", "", "plain"


def _of(rows: list[Proved], verb: str) -> str:
    """``the 3 remedies tried``, or the one by its name."""
    if len(rows) == 1:
        return words.plain(rows[0].id)
    return f"the {words.count(len(rows))} remedies {verb}"


def _title(proof: Proof, winner: Proved) -> str:
    """What the row does; of several remedies at once, what each of them does."""
    titles = {row.id: row.title for row in proof.rows if row.kind == "remedy"}
    known = [titles[name] for name in winner.remedies if name in titles]
    return "; ".join(known) if winner.kind == "combination" and known else winner.title


def _grounds(proof: Proof, winner: Proved) -> list[str]:
    said = []
    where = place(winner.fix.location if winner.fix else None, proof.run.cwd)
    if where:
        said.append(where)
    if proof.baseline_s is not None and winner.measured is not None and winner.scope == "step":
        after = words.seconds(proof.baseline_s / winner.measured.likely)
        said.append(f"a step took {words.seconds(proof.baseline_s)}, and takes {after}")
    said.append(_parity(winner.parity))
    if winner.memory_ratio is not None:
        said.append(f"memory {words.ratio(winner.memory_ratio)}")
    return said


def _before(proof: Proof) -> str:
    """What everything is compared with."""
    if proof.baseline_s is None:
        return "the step time without a remedy was not measured"
    said = f"{words.seconds(proof.baseline_s)} a step without"
    if proof.steps:
        said += f" · {words.counted(proof.steps, 'step')} a run"
    return said if proof.noise is None else f"{said} · runs differ by {words.percent(proof.noise)}"


def _unquiet(noise: float | None) -> list[str]:
    """Why so little could be decided, where the machine is to blame."""
    if noise is None or noise < NOISY:
        return []
    return [f"runs of the same thing differ by {words.percent(noise)}: a quieter machine decides sooner"]


def _row(row: Proved, won: bool) -> TrialRow:
    measured, interval = gained(row.measured) if row.measured is not None else ("", "")
    predicted, expected = "", ""
    if row.predicted is not None:
        predicted = words.promised(row.predicted)
        expected = words.promised_range(row.predicted).lstrip("×")
    was_run = row.measured is not None
    return TrialRow(
        name=words.plain(" + ".join(row.remedies) if row.kind == "combination" else row.id),
        predicted=predicted,
        range=expected,
        measured=measured,
        interval=interval,
        losses=LOSSES.get(row.parity.word, words.plain(row.parity.word)) if was_run else "",
        memory=words.ratio(row.memory_ratio) if was_run and row.memory_ratio is not None else "",
        verdict=verdict_of(row.verdict),
        mood=MOODS.get(row.verdict, "bad"),
        won=won,
        notes=_notes(row, won),
    )


def _notes(row: Proved, won: bool) -> list[str]:
    """What the numbers of a row do not say, and the headline has not said."""
    said = [_why(row.why)] if row.why else []
    if row.scope == "run" and row.measured is not None:
        said.append("of the whole run, evaluation included; a training step takes as long as before")
    plain = row.parity.word == "order" or (row.parity.word == "identical" and not row.parity.text)
    if row.measured is not None and not won and not plain:
        said.append(_parity(row.parity))
    if row.predicted is not None and row.predicted.likely is None and not row.measured:
        said.append(f"predicted: {BASES['bound']}")
    return said


def _parity(parity: Parity) -> str:
    said = SAID.get(parity.word, words.plain(parity.word))
    if parity.steps and parity.word != "unknown":
        said += f" over {words.counted(parity.steps, 'step')}"
    if parity.word == "changed" and parity.largest is not None:
        said += f", by up to {words.percent(parity.largest)}"
    if not parity.text or parity.word == "order":
        return said
    return f"{said}{', yet' if parity.word == 'identical' else ':'} {_why(parity.text)}"


def _why(text: str) -> str:
    return words.short(words.plain(text), LONGEST_WHY)


def verdict_of(outcome: str) -> str:
    """``out of memory``: what became of a trial."""
    return words.plain(outcome).replace("-", " ")


def name_of(arm: str) -> str:
    """What a way to run the training is called: its remedy, or in words."""
    return {BASELINE: "without a remedy", CEILING: "with batches from memory"}.get(arm, words.plain(arm))


def gained(gain: Gain) -> tuple[str, str]:
    """A measured speedup, and its interval."""
    return words.ratio_within(gain.likely, gain.low, gain.high)


def _ceiling(ceiling: Proved | None) -> str:
    """What no remedy of the input pipeline can exceed."""
    if ceiling is None:
        return ""
    if ceiling.measured is None:
        why = _why(ceiling.why) or verdict_of(ceiling.verdict)
        return f"with batches from memory: not known ({why})"
    likely, interval = gained(ceiling.measured)
    rest = "the input-pipeline ceiling"
    if ceiling.measured.low < 1 < NO_ROOM < ceiling.measured.high:
        rest = "not decided what input could bring at most"
    if ceiling.measured.high < NO_ROOM:
        rest = "input is not what limits this training"
    return f"with batches from memory {likely} ({interval}): {rest}"


def expected(one: Expected) -> tuple[str, str]:
    """Whether an expectation of the command line holds, and by how much."""
    asked = f"{words.plain(one.id)} {words.plain(one.op)} {words.exact(one.threshold)}"
    mood, said = EXPECTED.get(one.status, ("open", "cannot say"))
    if one.measured is not None:
        likely, interval = gained(one.measured)
        said += f", {likely} ({interval})"
    said += ", and its interval crosses the threshold" if one.close else ""
    why = f": {_why(one.why)}" if one.why else ""
    return mood, f"expected {asked}: {said}{why}"


def _advised(winner: Proved, cwd: str) -> Advised | None:
    """The patch of the winner, else its snippet and why there is no patch."""
    fix, patch = winner.fix, winner.patch
    lines = words.block(patch.diff) if patch is not None and patch.diff else []
    if not lines and fix is None:
        return None
    return Advised(
        place=place(fix.location if fix else None, cwd),
        text=words.plain(fix.text) if fix else "",
        diff=lines[:LONGEST_DIFF],
        why=words.plain(patch.why) if patch is not None and not lines else "",
        snippet=words.block(fix.snippet) if fix and fix.snippet.strip() and not lines else [],
        more=max(0, len(lines) - LONGEST_DIFF),
    )


def _cost(cost: ProofCost) -> str:
    said = f"{words.counted(cost.runs, 'run')} in {words.seconds(cost.spent_s)}"
    first = f", after a first run of {words.seconds(cost.window_s)}" if cost.window_s > 0 else ""
    return f"{said} (budget {words.seconds(cost.budget_s)}){first}"
