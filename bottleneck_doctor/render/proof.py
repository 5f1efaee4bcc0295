"""The proof and its plan, on a terminal and in markdown: what was tried, what it brought, what to change.

Every string of the script or of the machine is escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from ..model.proof import BASELINE, CEILING, Attempt, Gain, Missed, Parity, Plan, Proof, Proved
from ..model.run import ENVIRONMENT, Treatment
from . import words
from .compose import command_line, machine_facts, place
from .glossary import BASES
from .markdown import written
from .terminal import Sheet
from .words import markdown

COLUMNS = ("predicted", "measured", "losses", "memory", "verdict")
LEAST_NAME = 16  # columns, below which each row becomes a paragraph
GAP = 2
COLOURS = {"good": "green", "bad": "red", "open": "yellow", "plain": ""}
DIFF = {"+": "green", "-": "red", "@": "cyan"}
LONGEST_CHANGE = 200
LONGEST_DIFF = 60  # lines; the rest is in the file that --write-patch makes
LONGEST_WHY = 300
NO_ROOM = 1.05  # a ceiling below it: input limits nothing [contract: what limits anything]
MOODS = {"kept": "good", "no gain": "plain", "undecided": "open", "not-tried": "plain"}  # others are bad
LOSSES = {"order": "reordered"}
PARITY = {
    "identical": "losses identical",
    "order": "losses the same up to the order of batches",
    "changed": "losses changed",
    "unknown": "losses not compared",
}
NOTHING = "no remedy of the report can be applied from outside"
NUMERICS = " --allow-numerics"
UNSAID = ("where",)  # of a treatment's options: which call is meant


def render_proof(
    proof: Proof, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The proof for a terminal, as markdown or json."""
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(proof).decode()
    winner = next((row for row in proof.rows if proof.winner and row.id == proof.winner), None)
    if format == "markdown":
        return _markdown(proof, winner, encoding)
    return _terminal(proof, winner, Sheet(width, color, encoding))


def _terminal(proof: Proof, winner: Proved | None, sheet: Sheet) -> str:
    headline, figures, mood = _headline(proof, winner)
    colour = f"bold {COLOURS[mood]}".strip()
    sheet.line((headline, "bold" if figures else colour), (f": {figures}" if figures else "", colour))
    sheet.line((" · ".join(_grounds(proof, winner)), "dim"), indent=2)
    circumstances = [command_line(proof.run), *machine_facts(proof.run)]
    sheet.line(("bdoc prove ", "dim"), (" · ".join(circumstances), "dim"))
    if proof.rows:
        sheet.heading(("tried", "bold"), (f"  {_before(proof)}", "dim"))
        _table(sheet, proof.rows, winner)
    for remark in _remarks(proof):
        sheet.line(remark, indent=2, lead="• ")
    missed = _missed(proof)
    if missed:
        sheet.heading(("not tried", "bold"))
    for name, why in missed:
        sheet.line(name, (f"  {why}", "dim"), indent=2)
    change = _change(winner, proof.run.cwd)
    if change is not None:
        _change_shown(sheet, change)
    sheet.heading((_cost(proof), "dim"))
    return sheet.drawn()


def _table(sheet: Sheet, rows: list[Proved], winner: Proved | None) -> None:
    """Columns as wide as what stands in them. Where room is short the ranges of the predictions go, then long
    names stand on lines of their own, and then each row becomes a paragraph."""
    for spare in (True, False):
        cells = [("", *COLUMNS), *(_cells(row, spare) for row in rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        room = sheet.width - sum(widths[1:]) - GAP * len(widths)
        if room >= widths[0]:
            break
    is_narrow = room < min(widths[0], LEAST_NAME)
    widths[0] = min(widths[0], room)
    if not is_narrow:
        sheet.line((_aligned(cells[0], widths), "dim"), indent=GAP)
    for row, (name, *front, last) in zip(rows, cells[1:], strict=True):
        style = "bold" if row is winner else ""
        verdict = (last, f"{style} {COLOURS[MOODS.get(row.verdict, 'bad')]}".strip())
        if is_narrow:
            sheet.line((f"{name}  ", style), verdict, indent=GAP)
            labelled = [f"{column} {text}" for column, text in zip(COLUMNS, front, strict=False) if text]
            sheet.line(" · ".join(labelled), indent=2 * GAP)
        else:
            if cell_len(name) > widths[0]:
                sheet.line((name, style), indent=GAP)
                name = " "
            sheet.line((_aligned((name, *front), widths) + " " * GAP, style), verdict, indent=GAP)
        for note in _notes(row, row is winner):
            sheet.line((note, "dim"), indent=2 * GAP)


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    return (" " * GAP).join(set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False))


def _change_shown(sheet: Sheet, change: Advice) -> None:
    """The diff with its lines unwrapped, however long: a wrapped diff cannot be applied."""
    if change.is_diff:
        aside = "  --write-patch FILE writes it; your file is untouched"
        sheet.heading(("the change", "bold"), (aside, "dim"))
    else:
        sheet.heading(("the change", "bold"), (f"  no patch: {change.why}" if change.why else "", "dim"))
        sheet.line((f"{change.place}  " if change.place else "", "cyan"), change.text, indent=2)
    for line in change.lines:
        if change.is_diff:
            sheet.verbatim("  " + line, DIFF.get(line[:1], ""))
        else:
            sheet.line(line, indent=4)
    if change.more:
        sheet.line((words.counted(change.more, "more line"), "dim"), indent=2)


@dataclass(frozen=True)
class Advice:
    """What to change: the ``lines`` of a unified diff, and how many ``more`` are left out; or of the snippet,
    with the reason ``why`` there is no diff."""

    place: str
    text: str
    lines: list[str]
    is_diff: bool
    why: str = ""
    more: int = 0


def _change(winner: Proved | None, cwd: str) -> Advice | None:
    """The patch of the winner, else its snippet; None where neither is known."""
    if winner is None:
        return None
    fix, patch = winner.fix, winner.patch
    where = place(fix.location if fix else None, cwd)
    text = words.plain(fix.text) if fix else ""
    if patch is not None and patch.diff:
        lines = words.block(patch.diff)
        return Advice(where, text, lines[:LONGEST_DIFF], True, more=max(0, len(lines) - LONGEST_DIFF))
    if fix is None:
        return None
    snippet = words.block(fix.snippet) if fix.snippet.strip() else []
    return Advice(where, text, snippet, False, words.plain(patch.why) if patch is not None else "")


def _headline(proof: Proof, winner: Proved | None) -> tuple[str, str, str]:
    """The change to make and its measured speedup, or that none is known; with its numbers and mood."""

    def of(rows: list[Proved], verb: str) -> str:
        one = words.plain(rows[0].id)
        return one if len(rows) == 1 else f"the {words.count(len(rows))} remedies {verb}"

    if winner is not None and winner.measured is not None:
        likely, interval = gained(winner.measured)
        of_run = " of the whole run" if winner.scope == "run" else ""
        titles = {row.id: row.title for row in proof.rows if row.kind == "remedy"}
        parts = [titles[name] for name in winner.remedies if name in titles]
        title = "; ".join(parts) if winner.kind == "combination" and parts else winner.title
        return words.capital(words.plain(title)), f"{likely}{of_run}, measured ({interval})", "good"
    tried = [row for row in proof.rows if row.verdict != "not-tried"]
    measured = [row for row in tried if row.measured is not None]
    undecided = [row for row in measured if row.verdict == "undecided"]
    if not tried:
        return "Nothing was tried", "" if proof.rows else _to_ask_for(proof.missed), "plain"
    if not measured:
        return f"Cannot say: {of(tried, 'tried')} could not be measured", "", "bad"
    if undecided:
        return f"Undecided: {of(undecided, 'tried')} may pay or not", "", "open"
    does = "does" if len(measured) == 1 else "do"
    return f"Nothing to change: {of(measured, 'measured')} {does} not make the training faster", "", "plain"


def _grounds(proof: Proof, winner: Proved | None) -> list[str]:
    if winner is None:
        return []
    text = []
    where = place(winner.fix.location if winner.fix else None, proof.run.cwd)
    if where:
        text.append(where)
    if proof.baseline_s is not None and winner.measured is not None and winner.scope == "step":
        after = words.seconds(proof.baseline_s / winner.measured.likely)
        text.append(f"a step took {words.seconds(proof.baseline_s)}, and takes {after}")
    text.append(_parity(winner.parity))
    if winner.memory_ratio is not None:
        text.append(f"memory {words.ratio(winner.memory_ratio)}")
    return text


def _before(proof: Proof) -> str:
    """What everything is compared with."""
    if proof.baseline_s is None:
        return "the step time without a remedy was not measured"
    text = f"{words.seconds(proof.baseline_s)} a step without"
    if proof.steps:
        text += f" · {words.counted(proof.steps, 'step')} a run"
    return text if proof.noise is None else f"{text} · runs differ by {words.percent(proof.noise)}"


def _cells(row: Proved, spare: bool = True) -> tuple[str, ...]:
    """Name and columns of a row, every number as text; ``spare``: with the range of the prediction."""
    predicted = measured = losses = memory = ""
    if (told := row.predicted) is not None:
        ranged = spare and told.likely is not None
        range_ = words.ratio_range(told.low, told.high).lstrip("×") if ranged else ""
        predicted = words.within(words.promised(told), range_)
    if row.measured is not None:
        measured = words.within(*gained(row.measured))
        losses = LOSSES.get(row.parity.word, words.plain(row.parity.word))
        memory = words.ratio(row.memory_ratio) if row.memory_ratio is not None else ""
    name = " + ".join(row.remedies) if row.kind == "combination" else row.id
    return words.plain(name), predicted, measured, losses, memory, verdict_of(row.verdict)


def _notes(row: Proved, won: bool) -> list[str]:
    """Notes on a row that neither its numbers nor the headline contain."""
    text = [_why(row.why)] if row.why else []
    if row.scope == "run" and row.measured is not None:
        text.append("of the whole run, evaluation included; a training step takes as long as before")
    plain = row.parity.word == "order" or (row.parity.word == "identical" and not row.parity.text)
    if row.measured is not None and not won and not plain:
        text.append(_parity(row.parity))
    if row.predicted is not None and row.predicted.likely is None and not row.measured:
        text.append(f"predicted: {BASES['bound']}")
    return text


def _parity(parity: Parity) -> str:
    text = PARITY.get(parity.word, words.plain(parity.word))
    if parity.steps and parity.word != "unknown":
        text += f" over {words.counted(parity.steps, 'step')}"
    if parity.word == "changed" and parity.largest is not None:
        text += f", by up to {words.percent(parity.largest)}"
    if not parity.text or parity.word == "order":
        return text
    return f"{text}{', yet' if parity.word == 'identical' else ':'} {_why(parity.text)}"


def _to_ask_for(missed: Sequence[Missed]) -> str:
    """The options that try a remedy which was left out, if there is one: its reason names them."""
    for one in missed:
        if "tries it" in one.why:
            return (
                f"--remedy {words.plain(one.id)}{NUMERICS if NUMERICS.strip() in one.why else ''} tries one"
            )
    return NOTHING


def _why(text: str) -> str:
    return words.short(words.plain(text), LONGEST_WHY)


def verdict_of(outcome: str) -> str:
    """``out of memory``: what became of a trial."""
    return words.plain(outcome).replace("-", " ")


def name_of(arm: str) -> str:
    """The name of an arm: its remedy's id, or a text."""
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


def _remarks(proof: Proof) -> list[str]:
    """What is printed below the table: the ceiling, and notes."""
    return [text for text in (_ceiling(proof.ceiling), *map(words.plain, proof.notes)) if text]


def _missed(proof: Proof) -> list[tuple[str, str]]:
    """Remedies that were not tried, and why; those with one reason stand together."""
    reasons: dict[str, list[str]] = {}
    for one in proof.missed:
        reasons.setdefault(_why(one.why), []).append(words.plain(one.id))
    return [(", ".join(names), why) for why, names in reasons.items()]


def _cost(proof: Proof) -> str:
    cost = proof.cost
    text = f"{words.counted(cost.runs, 'run')} in {words.seconds(cost.spent_s)}"
    text += f" (budget {words.seconds(cost.budget_s)})"
    return text + (f", after a first run of {words.seconds(cost.window_s)}" if cost.window_s > 0 else "")


def _markdown(proof: Proof, winner: Proved | None, encoding: str) -> str:
    """One page that ends in a newline."""
    headline, figures, _ = _headline(proof, winner)
    rows = [(*_cells(row), row is winner) for row in proof.rows]
    notes = [(_cells(row)[0], note) for row in proof.rows for note in _notes(row, row is winner)]
    return written(
        "prove.md.j2", markdown, encoding, headline=headline, figures=figures, rows=rows, notes=notes,
        grounds=_grounds(proof, winner), command=command_line(proof.run), facts=machine_facts(proof.run),
        before=_before(proof), columns=COLUMNS, remarks=_remarks(proof), missed=_missed(proof),
        change=_change(winner, proof.run.cwd), cost=_cost(proof),
    )  # fmt: skip


def render_plan(
    plan: Plan, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The plan in one of the proof's formats; markdown is the text of a pipe."""
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(plan).decode()
    sheet = Sheet(width, color and format == "terminal", encoding)
    tried = plan.arms if any(arm.kind != BASELINE for arm in plan.arms) else []
    span = f"steps {words.count(plan.span.begin + 1)} to {words.count(plan.span.end)} would be compared"
    cost = f"{words.seconds(plan.run_s)} a run, {words.seconds(plan.least_s)} to {words.seconds(plan.most_s)}"
    cost = f"{words.counted(len(plan.arms), 'way')} to run the training: {span}, {cost} in all"
    sheet.line((cost if tried else f"nothing to try: {_to_ask_for(plan.missed)}", "bold"))
    for arm in tried:
        predicted = f"  {words.promised(arm.predicted)} predicted" if arm.predicted is not None else ""
        name = name_of(arm.id if arm.kind in (BASELINE, "ceiling") else " + ".join(arm.remedies) or arm.id)
        sheet.line((name, "bold"), predicted, indent=2)
        sheet.line((words.plain(arm.title), "dim"), indent=4)
        for treatment in arm.treatments:
            sheet.line(_treated(treatment), indent=4)
    if plan.missed:
        sheet.heading(("not tried", "bold"))
    for missed in plan.missed:
        sheet.line(words.plain(missed.id), (f"  {words.plain(missed.why)}", "dim"), indent=2)
    return sheet.drawn()


def _treated(treatment: Treatment) -> str:
    """What the agent is asked to set; "" where the title says it all."""
    options = {name: value for name, value in treatment.options.items() if name not in UNSAID}
    if isinstance(options.get("arguments"), dict):
        options |= options.pop("arguments")
    shown = " ".join(
        f"{name}={value if isinstance(value, str) else repr(value)}" for name, value in options.items()
    )
    if not shown:
        return ""
    name = "" if treatment.name == ENVIRONMENT else f"{treatment.name}: "
    return words.short(words.plain(f"{name}{shown}"), LONGEST_CHANGE)


LONGEST_BAR = 20
LEAST_BAR = 5


def proving_line(
    doing: str,
    share: float,
    left_s: float | None,
    known: Sequence[tuple[str, Gain]] = (),
    width: int = 80,
    encoding: str = "utf-8",
) -> str:
    """``doing`` is an arm's id or what else goes on, ``share`` of all is done, ``left_s`` are left at most,
    ``known`` says what each arm gains so far. At most ``width - 1`` columns: no terminal wraps it."""
    most = max(0, width - 1)
    what = name_of(doing)
    left = f"{words.seconds(float(round(left_s)))} left" if left_s is not None else ""
    gains = [f"{words.plain(name)} {gained(gain)[0]}" for name, gain in known if name != CEILING]
    parts = [part for part in (left, what, *gains) if part]
    while len(parts) > 1 and cell_len(" · ".join(parts)) + LEAST_BAR + 6 > most:
        parts.pop()
    text = " · ".join(parts)
    room = min(LONGEST_BAR, most - cell_len(text) - 6)
    bar = f"bdoc {words.bar(share, room)} " if room >= LEAST_BAR else ""
    return words.fit(bar + text, encoding)[:most]


def attempt_line(attempt: Attempt) -> str:
    """One finished run, for a log: which arm, how long a step took or what became of it."""
    if attempt.step_s is not None and attempt.outcome == "measured":
        text = f"{words.seconds(attempt.step_s)} a step over {words.counted(attempt.steps, 'step')}"
    else:
        text = verdict_of(attempt.outcome)
        text += f": {words.short(words.plain(attempt.why), 200)}" if attempt.why else ""
    return f"{name_of(attempt.arm)}: {text} (run of {words.seconds(attempt.run_s)})"
