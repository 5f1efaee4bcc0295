"""The proof and its plan on a terminal and in markdown: what was tried, what it brought, what to change."""

from __future__ import annotations

from typing import Any

from rich.cells import cell_len, set_cell_size

from ..model.proof import BASELINE, Plan, Proof
from ..model.run import ENVIRONMENT, Treatment
from . import words
from .markdown import cell, fenced, table
from .proof_document import Advised, ProofDocument, TrialRow, compose, name_of
from .terminal import Sheet
from .words import code, markdown

COLUMNS = ("predicted", "measured", "losses", "memory", "verdict")
LEAST_NAME = 16  # columns, below which each row gets a block
GAP = 2
COLOURS = {"good": "green", "bad": "red", "open": "yellow", "plain": ""}
DIFF = {"+": "green", "-": "red", "@": "cyan"}
LONGEST_CHANGE = 200
NOTHING = "nothing to try: no remedy of the report can be applied from outside"
UNSAID = ("where",)  # of a treatment's options: which call is meant


def render_proof(
    proof: Proof, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """The proof for a terminal (a narrow one gets a block for each row), as markdown or json."""
    if format == "json":
        from ..model.codec import encode_proof

        return encode_proof(proof).decode()
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
    """The diff as it is, however long its lines: a wrapped one is none."""
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


def _markdown(document: ProofDocument, encoding: str) -> str:
    """The document as one markdown page that ends in a newline."""
    sections = [
        _title(document),
        _tried(document),
        _listed(document),
        _not_tried(document),
        _change_told(document.advised),
        f"<sub>{markdown(document.cost)}</sub>",
    ]
    return words.fit("\n\n".join(part for part in sections if part) + "\n", encoding)


def _title(document: ProofDocument) -> str:
    figures = f": {markdown(document.figures)}" if document.figures else ""
    lines = [f"## {markdown(document.headline)}{figures}"]
    if document.grounds:
        lines.append(markdown(" · ".join(document.grounds)))
    lines.append(" · ".join([code(document.command), *map(markdown, document.circumstances)]))
    return "\n\n".join(lines)


def _tried(document: ProofDocument) -> str:
    if not document.rows:
        return ""
    rows = [_tried_row(row) for row in document.rows]
    notes = [f"- {code(row.name)}: {markdown(note)}" for row in document.rows for note in row.notes]
    drawn = table(("remedy", *COLUMNS), rows, numbers=False)
    body = f"### Tried\n\n{markdown(document.before)}\n\n{drawn}"
    return "\n\n".join([body, "\n".join(notes)]) if notes else body


def _tried_row(row: TrialRow) -> tuple[str, ...]:
    name, verdict = cell(code(row.name)), markdown(row.verdict)
    predicted, measured = words.within(row.predicted, row.range), words.within(row.measured, row.interval)
    bold = f"**{verdict}**" if row.won else verdict
    return name, predicted, measured, markdown(row.losses), row.memory, bold


def _listed(document: ProofDocument) -> str:
    expected = (text for _, text in document.expected)
    return "\n".join(f"- {markdown(line)}" for line in (document.ceiling, *document.notes, *expected) if line)


def _not_tried(document: ProofDocument) -> str:
    lines = [f"- {code(name)}: {markdown(why)}" for name, why in document.missed]
    return "\n".join(["### Not tried", "", *lines]) if lines else ""


def _change_told(advised: Advised | None) -> str:
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
        from ..model.codec import encode_plan

        return encode_plan(plan).decode()
    sheet = Sheet(width, color and format == "terminal", encoding)
    tried = plan.arms if any(arm.kind != BASELINE for arm in plan.arms) else []
    sheet.line((_cost(plan) if tried else NOTHING, "bold"))
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


def _cost(plan: Plan) -> str:
    span = f"steps {words.count(plan.span.begin + 1)} to {words.count(plan.span.end)} would be compared"
    least, most = words.seconds(plan.least_s), words.seconds(plan.most_s)
    cost = f"{words.seconds(plan.run_s)} a run, {least} to {most} in all"
    return f"{words.counted(len(plan.arms), 'way')} to run the training: {span}, {cost}"


def _change(treatment: Treatment) -> str:
    """What the agent is asked to set; "" where the title says it all."""
    options = {name: value for name, value in treatment.options.items() if name not in UNSAID}
    if isinstance(options.get("arguments"), dict):
        options |= options.pop("arguments")
    shown = " ".join(f"{name}={_value(value)}" for name, value in options.items())
    if not shown:
        return ""
    name = "" if treatment.name == ENVIRONMENT else f"{treatment.name}: "
    return words.short(words.plain(f"{name}{shown}"), LONGEST_CHANGE)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
