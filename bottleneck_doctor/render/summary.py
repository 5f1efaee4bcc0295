"""The gate as a short markdown page: what a CI system shows beside the job."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.gate import CANNOT_SAY, EXCEEDED, HOLDS, Checked, Gate, Judgement, Regression
from . import words
from .compose import compose
from .document import Lengths
from .markdown_tables import cell, table
from .outcome import VERDICTS, careful, condition_text, measured, moved, noise_text, regression_text
from .words import code, markdown

# GitHub drops a step's whole summary beyond this.
LARGEST_BYTES = 1 << 20
MOST_ROWS = 200
MOST_VERDICTS = 5
LENGTHS = Lengths(cures=3)
MARKS = {HOLDS: "✅", EXCEEDED: "❌", CANNOT_SAY: "❔"}


def summary(gate: Gate, room_bytes: int = LARGEST_BYTES) -> str:
    """A page that ends in an empty line and takes at most ``room_bytes`` of UTF-8; "" where nothing fits."""
    parts = [
        f"## bdoc check: {VERDICTS[gate.status]}",
        _rows(gate),
        *_regression(gate.regression),
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
    rows = [_row(one, judgement) for one, judgement in pairs[:MOST_ROWS]]
    if gate.regression is not None:
        rows.append(_regression_row(gate.regression))
    drawn = table(("", "what", "fails when", "measured"), rows).replace("--:", "---")
    more = len(pairs) - MOST_ROWS
    return f"{drawn}\n\n{words.counted(more, 'more row')}" if more > 0 else drawn


def _row(one: Checked, judgement: Judgement) -> tuple[str, ...]:
    value = measured(judgement) if judgement.status != CANNOT_SAY else f"cannot say: {judgement.why}"
    failing = code(condition_text(judgement.condition))
    return MARKS[judgement.status], cell(code(one.profile)), cell(failing), cell(markdown(value))


def _regression_row(regression: Regression) -> tuple[str, ...]:
    fails = f"slower by more than {words.percent(regression.limit)}"
    value = moved(regression) or f"cannot say: {regression.why}"
    return MARKS[regression.status], "against the baseline", fails, cell(markdown(value))


def _regression(regression: Regression | None) -> Iterator[str]:
    """The noise behind the comparison, and what else differs."""
    if regression is None:
        return
    texts = [regression_text(regression)] if regression.change is None else noise_text(regression)
    lines = [*texts, *(f"careful: {said}" for said in careful(regression))]
    yield "\n".join(f"- {markdown(line)}" for line in lines)


def _verdicts(gate: Gate) -> Iterator[str]:
    """What limits each run and what to change first; of repeats that say the same, one."""
    told: set[str] = set()
    for one in gate.checked[:MOST_ROWS]:
        document = compose(one.report, LENGTHS)
        said = f"{document.headline}: {document.summary}"
        if said in told or len(told) == MOST_VERDICTS:
            continue
        told.add(said)
        lines = [f"**{markdown(said)}** ({code(one.profile)})", ""]
        for rank, cure in enumerate(document.cures, start=1):
            place = f" at {code(cure.place)}" if cure.place else ""
            lines.append(f"{rank}. {markdown(cure.title)}: **{cure.likely}** ({markdown(cure.basis)}){place}")
        yield "\n".join(lines).rstrip()
