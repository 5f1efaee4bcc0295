"""Markdown tables: where Python was seen, what operators took, the environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .document import Document, Hottest
from .words import code, markdown

TEXTS = ("part", "metric", "source", "function", "operator", "what", "")


def hottest(document: Document) -> Iterator[str]:
    """A section for each kind of row that there is; what is long stays folded."""
    yield _rows("Where Python was seen", document.functions, ("own", "with calls", "function", ""))
    yield _rows("Where in libraries", document.libraries, ("own", "with calls", "function", ""))
    yield _rows("Operators", document.operators, ("own", "time", "operator", ""))
    if document.environment:
        rows = [(markdown(name), markdown(value)) for name, value in document.environment]
        yield folded("Environment", table(("what", ""), rows))


def _rows(title: str, found: Hottest, heads: tuple[str, ...]) -> str:
    if not found.rows:
        return ""
    rows: list[tuple[str, ...]] = [
        (row.own, row.beside, cell(code(row.name)), cell(code(row.place)) if ":" in row.place else row.place)
        for row in found.rows
    ]
    if any(row.state for row in found.rows):
        heads = (*heads, "")
        rows = [(*cells, row.state) for cells, row in zip(rows, found.rows, strict=True)]
    return folded(title, f"{markdown(found.taken)}\n\n{table(heads, rows)}")


def folded(title: str, body: str) -> str:
    """A section that opens when asked."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Texts to the left, numbers to the right."""
    align = ["---" if head in TEXTS else "--:" for head in heads]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [heads, tuple(align), *rows])


def cell(text: str) -> str:
    """Text that may hold the mark between cells."""
    return text.replace("|", "\\|")
