"""The proof as GitHub-flavoured markdown, for pull requests and job summaries."""

from __future__ import annotations

from .. import words
from ..markdown import cell, fenced, table
from ..words import code, markdown
from .compose import Advised, ProofDocument, TrialRow

HEADS = ("remedy", "predicted", "measured", "losses", "memory", "verdict")


def markdown_page(document: ProofDocument, encoding: str) -> str:
    """The document as one markdown page that ends in a newline."""
    sections = [
        _head(document),
        _rows(document),
        _listed(document),
        _missed(document),
        _advised(document.advised),
        f"<sub>{markdown(document.cost)}</sub>",
    ]
    return words.fit("\n\n".join(part for part in sections if part) + "\n", encoding)


def _head(document: ProofDocument) -> str:
    figures = f": {markdown(document.figures)}" if document.figures else ""
    lines = [f"## {markdown(document.headline)}{figures}"]
    if document.grounds:
        lines.append(markdown(" · ".join(document.grounds)))
    lines.append(" · ".join([code(document.command), *map(markdown, document.circumstances)]))
    return "\n\n".join(lines)


def _rows(document: ProofDocument) -> str:
    if not document.rows:
        return ""
    rows = [_row(row) for row in document.rows]
    notes = [f"- {code(row.name)}: {markdown(note)}" for row in document.rows for note in row.notes]
    drawn = table(HEADS, rows, numbers=False)
    body = f"### Tried\n\n{markdown(document.before)}\n\n{drawn}"
    return "\n\n".join([body, "\n".join(notes)]) if notes else body


def _row(row: TrialRow) -> tuple[str, ...]:
    name, verdict = cell(code(row.name)), markdown(row.verdict)
    predicted, measured = words.within(row.predicted, row.range), words.within(row.measured, row.interval)
    bold = f"**{verdict}**" if row.won else verdict
    return name, predicted, measured, markdown(row.losses), row.memory, bold


def _listed(document: ProofDocument) -> str:
    expected = (text for _, text in document.expected)
    return "\n".join(f"- {markdown(line)}" for line in (document.ceiling, *document.notes, *expected) if line)


def _missed(document: ProofDocument) -> str:
    lines = [f"- {code(name)}: {markdown(why)}" for name, why in document.missed]
    return "\n".join(["### Not tried", "", *lines]) if lines else ""


def _advised(advised: Advised | None) -> str:
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
