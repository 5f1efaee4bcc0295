"""The terminal's tables: where Python was seen, what operators took, the environment, all metrics."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from . import words
from .document import Document, HotRow, Hottest
from .sheet import Sheet

LONGEST_NAME = 40
FIRST_COLUMNS = 22  # two numbers and the blanks about them


def draw_hottest(sheet: Sheet, document: Document) -> None:
    """Functions and operators, then what only ``--details`` leaves in: libraries, environment, metrics."""
    _table(sheet, "where Python was seen", document.functions, ("own", "total"))
    _table(sheet, "where in libraries", document.libraries, ("own", "total"))
    _table(sheet, "operators", document.operators, ("own", "time"))
    _pairs(sheet, "environment", document.environment)
    _pairs(sheet, "metrics", [(row.name, _metric(row.value, row.interval)) for row in document.metrics])


def _table(sheet: Sheet, title: str, hottest: Hottest, heads: tuple[str, str]) -> None:
    if not hottest.rows:
        return
    sheet.heading((title, "bold"), (f"  {hottest.taken}", "dim"))
    room = max(0, sheet.width - FIRST_COLUMNS - 4)
    longest = min(LONGEST_NAME, room, max(cell_len(_fitting(sheet, row.name)) for row in hottest.rows))
    sheet.line((f"{heads[0]:>6} {heads[1]:>9}", "dim"), indent=2)
    for row in hottest.rows:
        _row(sheet, row, longest)


def _row(sheet: Sheet, row: HotRow, longest: int) -> None:
    name = _fitting(sheet, row.name)
    padded = set_cell_size(name, longest) if cell_len(name) < longest else name
    state = f"  {row.state}" if row.state else ""
    sheet.line(f"{padded}  ", (row.place, "dim"), state, indent=2, lead=f"{row.own:>6} {row.beside:>9}  ")


def _pairs(sheet: Sheet, title: str, pairs: list[tuple[str, str]]) -> None:
    if not pairs:
        return
    sheet.heading((title, "bold"))
    longest = min(LONGEST_NAME, max(cell_len(name) for name, _ in pairs))
    for name, value in pairs:
        sheet.line(value, indent=2, lead=f"{_fitting(sheet, name):<{longest}}  ", lead_style="dim")


def _metric(value: str, interval: str) -> str:
    return f"{value} ({interval})" if interval else value


def _fitting(sheet: Sheet, text: str) -> str:
    return words.fit(text, sheet.encoding)
