"""The proof and its plan, on a terminal and in markdown: what was tried, what it brought, what to change.

Every string of the script or of the machine is escaped here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size

from ..model.proof import BASELINE, CEILING, Expected, Gain, Parity, Plan, Proof, Proved
from ..model.run import ENVIRONMENT, Treatment
from . import words
from .compose import command_line, machine_facts, place
from .glossary import BASES
from .markdown import cell, fenced, table
from .terminal import Sheet
from .words import code, markdown

COLUMNS = ("predicted", "measured", "losses", "memory", "verdict")
LEAST_NAME = 16  # columns, below which each row gets a block
GAP = 2
COLOURS = {"good": "green", "bad": "red", "open": "yellow", "plain": ""}
DIFF = {"+": "green", "-": "red", "@": "cyan"}
LONGEST_CHANGE = 200
LONGEST_DIFF = 60  # lines; the rest is in the file that --write-patch makes
LONGEST_WHY = 300
NOISY = 0.1  # between runs, from which it is worth a line (chosen)
NO_ROOM = 1.05  # a ceiling below it: input limits nothing [contract: what limits anything]
MOODS = {"kept": "good", "no gain": "plain", "undecided": "open", "not-tried": "plain"}  # others are bad
LOSSES = {"order": "reordered"}
PARITY = {
    "identical": "losses identical",
    "order": "losses the same up to the order of batches",
    "changed": "losses changed",
    "unknown": "losses not compared",
}
EXPECTED = {0: ("good", "holds"), 1: ("bad", "fails"), 3: ("open", "cannot say")}
TRIED = ("remedy", "combination")
NOTHING = "nothing to try: no remedy of the report can be applied from outside"
UNSAID = ("where",)  # of a treatment's options: which call is meant


def render_proof(
    proof: Proof, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The proof for a terminal (a narrow one gets a block for each row), as markdown or json."""
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(proof).decode()
    document = compose(proof)
    if format == "markdown":
        return _markdown(document, encoding)
    return _terminal(document, width, color, encoding)


def _terminal(document: ProofDocument, width: int | None, color: bool, encoding: str) -> str:
    """The document drawn for a terminal, or for a pipe when ``color`` is off."""
    sheet = Sheet(width, color, encoding)
    colour = f"bold {COLOURS[document.mood]}".strip()
    figures = (f": {document.figures}", colour) if document.figures else ""
    sheet.line((document.headline, "bold" if document.figures else colour), figures)
    sheet.line((" · ".join(document.grounds), "dim"), indent=2)
    sheet.line(("bdoc prove ", "dim"), (" · ".join([document.command, *document.circumstances]), "dim"))
    _table(sheet, document)
    sheet.line(document.ceiling, indent=2, lead="• ")
    for note in document.notes:
        sheet.line(note, indent=2, lead="• ")
    for mood, expectation in document.expected:
        sheet.line((expectation, COLOURS[mood]), indent=2, lead="• ")
    if document.missed:
        sheet.heading(("not tried", "bold"))
    for name, why in document.missed:
        sheet.line(name, (f"  {why}", "dim"), indent=2)
    if document.advised is not None:
        _change_shown(sheet, document.advised)
    sheet.heading((document.cost, "dim"))
    return sheet.drawn()


def _table(sheet: Sheet, document: ProofDocument) -> None:
    """Columns as wide as what stands in them; a block for each row where they do not fit."""
    if not document.rows:
        return
    sheet.heading(("tried", "bold"), (f"  {document.before}", "dim"))
    for spare in (True, False):  # the range of the prediction is the first to go
        rows = [_cells(row, spare) for row in document.rows]
        widths = [
            max(cell_len(cell) for cell in column) for column in zip(("", *COLUMNS), *rows, strict=True)
        ]
        room = sheet.width - sum(widths[1:]) - GAP * len(widths)
        if room >= (widths[0] if spare else min(widths[0], LEAST_NAME)):
            widths[0] = min(widths[0], room)
            _columns(sheet, document.rows, rows, widths)
            return
    for row in document.rows:
        _block(sheet, row)


def _cells(row: TrialRow, spare: bool) -> tuple[str, ...]:
    predicted = words.within(row.predicted, row.range if row.predicted and spare else "")
    return row.name, predicted, words.within(row.measured, row.interval), row.losses, row.memory, row.verdict


def _columns(sheet: Sheet, rows: list[TrialRow], cells: list[tuple[str, ...]], widths: list[int]) -> None:
    """A name that is longer than its column stands on a line of its own."""
    sheet.line((_aligned(("", *COLUMNS), widths), "dim"), indent=GAP)
    for row, (name, *front, verdict) in zip(rows, cells, strict=True):
        style = "bold" if row.won else ""
        if cell_len(name) > widths[0]:
            sheet.line((name, style), indent=GAP)
            name = ""
        texts = _aligned((name or " ", *front), widths) + " " * GAP
        sheet.line((texts, style), (verdict, f"{style} {COLOURS[row.mood]}".strip()), indent=GAP)
        for note in row.notes:
            sheet.line((note, "dim"), indent=2 * GAP)


def _aligned(cells: tuple[str, ...], widths: list[int]) -> str:
    return (" " * GAP).join(set_cell_size(cell, width) for cell, width in zip(cells, widths, strict=False))


def _block(sheet: Sheet, row: TrialRow) -> None:
    """What a narrow terminal shows of a row."""
    verdict = (f"  {row.verdict}", COLOURS[row.mood])
    sheet.line((row.name, "bold" if row.won else ""), verdict, indent=2)
    predicted = f"predicted {words.within(row.predicted, row.range)}" if row.predicted else ""
    measured = f"measured {words.within(row.measured, row.interval)}" if row.measured else ""
    for line in (predicted, measured):
        sheet.line(line, indent=4)
    losses = f"losses {row.losses}" if row.losses else ""
    memory = f"memory {row.memory}" if row.memory else ""
    sheet.line((" · ".join(filter(None, (losses, memory))), "dim"), indent=4)
    for note in row.notes:
        sheet.line((note, "dim"), indent=4)


def _change_shown(sheet: Sheet, advised: Advised) -> None:
    """The diff with its lines unwrapped, however long: a wrapped diff cannot be applied."""
    if advised.diff:
        sheet.heading(
            ("the change", "bold"), ("  --write-patch FILE writes it; your file is untouched", "dim")
        )
    else:
        sheet.heading(("the change", "bold"), (f"  no patch: {advised.why}" if advised.why else "", "dim"))
        sheet.line((f"{advised.place}  " if advised.place else "", "cyan"), advised.text, indent=2)
    for line in advised.diff:
        sheet.verbatim("  " + line, DIFF.get(line[:1], ""))
    for line in advised.snippet:
        sheet.line(line, indent=4)
    if advised.more:
        sheet.line((words.counted(advised.more, "more line"), "dim"), indent=2)


@dataclass(frozen=True)
class TrialRow:
    """One thing that was tried, every number as text; ``notes`` are sentences about it.

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
    """A proof as texts. ``mood`` is that of its headline: good, bad, open or plain; an expectation has one,
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


def compose(proof: Proof) -> ProofDocument:
    """The document of a proof."""
    winner = next((row for row in proof.rows if proof.winner and row.id == proof.winner), None)
    headline, figures, mood = _headline(proof, winner)
    reasons: dict[str, list[str]] = {}  # remedies that were not tried for one reason stand together
    for one in proof.missed:
        reasons.setdefault(_why(one.why), []).append(words.plain(one.id))
    notes = [words.plain(note) for note in proof.notes]
    if proof.noise is not None and proof.noise >= NOISY:
        differ = f"runs of the same thing differ by {words.percent(proof.noise)}"
        notes.append(f"{differ}: a quieter machine decides sooner")
    cost = f"{words.counted(proof.cost.runs, 'run')} in {words.seconds(proof.cost.spent_s)}"
    cost += f" (budget {words.seconds(proof.cost.budget_s)})"
    if proof.cost.window_s > 0:
        cost += f", after a first run of {words.seconds(proof.cost.window_s)}"
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
        missed=[(", ".join(names), why) for why, names in reasons.items()],
        notes=notes,
        expected=[expected(one) for one in proof.expected],
        advised=_advised(winner, proof.run.cwd) if winner is not None else None,
        cost=cost,
    )


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
    tried = [row for row in proof.rows if row.kind in TRIED and row.verdict != "not-tried"]
    measured = [row for row in tried if row.measured is not None]
    undecided = [row for row in measured if row.verdict == "undecided"]
    if not tried:
        return "Nothing was tried", "", "plain"
    if not measured:
        return f"Cannot say: {of(tried, 'tried')} could not be measured", "", "bad"
    if undecided:
        return f"Undecided: {of(undecided, 'tried')} may pay or not", "", "open"
    does = "does" if len(measured) == 1 else "do"
    return f"Nothing to change: {of(measured, 'measured')} {does} not make the training faster", "", "plain"


def _grounds(proof: Proof, winner: Proved) -> list[str]:
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


def expected(one: Expected) -> tuple[str, str]:
    """Whether an expectation of the command line holds, and by how much."""
    asked = f"{words.plain(one.id)} {words.plain(one.op)} {words.exact(one.threshold)}"
    mood, text = EXPECTED.get(one.status, ("open", "cannot say"))
    if one.measured is not None:
        likely, interval = gained(one.measured)
        text += f", {likely} ({interval})"
    text += ", and its interval crosses the threshold" if one.close else ""
    why = f": {_why(one.why)}" if one.why else ""
    return mood, f"expected {asked}: {text}{why}"


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


def _markdown(document: ProofDocument, encoding: str) -> str:
    """The document as one markdown page that ends in a newline."""
    figures = f": {markdown(document.figures)}" if document.figures else ""
    sections = [
        f"## {markdown(document.headline)}{figures}",
        markdown(" · ".join(document.grounds)),
        " · ".join([code(document.command), *map(markdown, document.circumstances)]),
    ]
    if document.rows:
        rows = []
        for row in document.rows:
            predicted = words.within(row.predicted, row.range)
            measured = words.within(row.measured, row.interval)
            verdict = f"**{markdown(row.verdict)}**" if row.won else markdown(row.verdict)
            losses = markdown(row.losses)
            rows.append((cell(code(row.name)), predicted, measured, losses, row.memory, verdict))
        sections += [f"### Tried\n\n{markdown(document.before)}"]
        sections += [table(("remedy", *COLUMNS), rows, numbers=False)]
        notes = [f"- {code(row.name)}: {markdown(note)}" for row in document.rows for note in row.notes]
        sections.append("\n".join(notes))
    lines = [document.ceiling, *document.notes, *(text for _, text in document.expected)]
    sections.append("\n".join(f"- {markdown(line)}" for line in lines if line))
    if document.missed:
        lines = [f"- {code(name)}: {markdown(why)}" for name, why in document.missed]
        sections.append("\n".join(["### Not tried", "", *lines]))
    sections.append(_change_in_markdown(document.advised))
    sections.append(f"<sub>{markdown(document.cost)}</sub>")
    return words.fit("\n\n".join(part for part in sections if part) + "\n", encoding)


def _change_in_markdown(advised: Advised | None) -> str:
    if advised is None:
        return ""
    lines = ["### The change", ""]
    if not advised.diff:
        place = f"{code(advised.place)} " if advised.place else ""
        why = f" (no patch: {markdown(advised.why)})" if advised.why else ""
        lines += [f"{place}{markdown(advised.text)}{why}".strip(), ""]
    shown, language = (advised.diff, "diff") if advised.diff else (advised.snippet, "python")
    if shown:
        lines += fenced(shown, language)
    if advised.more:
        lines += ["", words.counted(advised.more, "more line")]
    return "\n".join(lines).rstrip()


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
    sheet.line((cost if tried else NOTHING, "bold"))
    for arm in tried:
        predicted = f"  {words.promised(arm.predicted)} predicted" if arm.predicted is not None else ""
        name = name_of(arm.id if arm.kind in (BASELINE, "ceiling") else " + ".join(arm.remedies) or arm.id)
        sheet.line((name, "bold"), predicted, indent=2)
        sheet.line((words.plain(arm.title), "dim"), indent=4)
        for treatment in arm.treatments:
            sheet.line(_change(treatment), indent=4)
    if plan.missed:
        sheet.heading(("not tried", "bold"))
    for missed in plan.missed:
        sheet.line(words.plain(missed.id), (f"  {words.plain(missed.why)}", "dim"), indent=2)
    return sheet.drawn()


def _change(treatment: Treatment) -> str:
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
