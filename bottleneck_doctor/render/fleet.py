"""Draws the tables of ``bdoc fleet`` for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

from ..model.report import Fleet, Hours, Wasted
from . import words
from .terminal import Sheet

GAP = 2
LEAST_NAME = 8  # columns; on a terminal too narrow for it, rows wrap
MOST_ROWS = 1000  # of a query's answer on a terminal
JUDGED = (
    ("saving", "with a predicted saving"),
    ("healthy", "healthy"),
    ("unknown", "of which no more than a bound is known"),
    ("inconclusive", "inconclusive"),
)


def render_fleet(
    fleet: Fleet, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """All answers for a terminal, or as json."""
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(fleet).decode()
    sheet = Sheet(width, color, encoding)
    first, *grounds = _grounds(fleet)
    sheet.line(("bdoc fleet", "bold"), f" · {first}")
    for line in grounds:
        sheet.line((line, "dim"), indent=2)
    for title, note, heads, rows, names in _answers(fleet):
        sheet.heading((title, "bold"), (f"  {note}" if note else "", "dim"))
        draw_table(sheet, heads, rows, names)
    return sheet.drawn()


def draw_table(sheet: Sheet, heads: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> None:
    """Columns as wide as what stands in them: numbers to the right, then ``names``, the last of which takes
    what is left."""
    if not rows:
        return
    widths = [max(map(cell_len, map(sheet.fit, column))) for column in zip(heads, *rows, strict=True)]
    room = max(LEAST_NAME, sheet.width - GAP - sum(widths[:-1]) - GAP * (len(widths) - 1))
    for place, row in enumerate([heads, *rows]):
        cells = [
            set_cell_size(cell, widths[at])
            if at >= len(row) - names
            else " " * (widths[at] - cell_len(cell)) + cell
            for at, cell in enumerate(map(sheet.fit, row[:-1]))
        ]
        text = (" " * GAP).join([*cells, words.short(row[-1], room)])
        sheet.line((text, "dim" if place == 0 else ""), indent=GAP)


def render_rows(
    heads: Sequence[str],
    rows: Sequence[Sequence[Any]],
    format: str,
    *,
    width: int | None = None,
    encoding: str = "utf-8",
) -> str:
    """What a query of the user's own returned: the first rows for a terminal, or all as a list of objects."""
    if format == "json":
        return json.dumps([dict(zip(heads, row, strict=True)) for row in rows], default=str, indent=2) + "\n"
    sheet = Sheet(width, False, encoding)
    shown = [[words.plain("" if one is None else str(one)) for one in row] for row in rows[:MOST_ROWS]]
    draw_table(sheet, [words.plain(head) for head in heads], shown, len(heads))
    sheet.line(f"{'the first ' if len(rows) > MOST_ROWS else ''}{words.counted(len(shown), 'row')}")
    return sheet.drawn()


def _grounds(fleet: Fleet) -> Iterator[str]:
    totals = fleet.totals
    counts = ((totals.runs, "run"), (totals.jobs, "job"), (totals.nodes, "node"))
    days = f"{_day(totals.first)} to {_day(totals.last)}"
    yield " · ".join([*(words.counted(count, name) for count, name in counts), days])
    yield f"{_hours(totals.taken)}, of which the best remedy of each run would save {_hours(totals.wasted)}"
    yield "runs: " + ", ".join(f"{words.count(getattr(totals, name))} {text}" for name, text in JUDGED)
    if totals.repeated:
        yield f"{words.counted(totals.repeated, 'report')} of runs that another file holds too, left out"


def _answers(fleet: Fleet) -> Iterator[tuple[str, str, Sequence[str], Sequence[Sequence[str]], int]]:
    """Title, note, heads and rows of each question's table, and how many of its columns are names."""
    gpu = fleet.totals.taken.gpu > 0
    spent = ("core-hours", "GPU-hours") if gpu else ("core-hours",)
    causes = [(*_waste(one, gpu), one.cause) for one in fleet.causes]
    jobs = [(*_waste(one, gpu), words.plain(one.cause), words.plain(one.job or "")) for one in fleet.jobs]
    saved = [
        (*_both(one.saved, gpu), words.count(one.runs), words.count(one.bounded), words.plain(one.remedy),
         words.plain(one.finding))
        for one in fleet.remedies
    ]  # fmt: skip
    heads = (*spent, "share", "runs", "cause")
    for title, columns, rows, names in (
        ("wasted, by cause", heads, causes, 1),
        ("wasted, by job", (*heads, "job"), jobs, 2),
        ("the one remedy that would save most", (*spent, "runs", "bounds", "remedy", "cures"), saved, 2),
    ):
        yield title, "" if rows else "nothing with a number", columns, rows, names
    slowed = [
        (words.change(one.change), words.change(one.low), words.seconds(one.before_s),
         words.seconds(one.after_s), f"{one.runs_before} + {one.runs_after}", words.plain(one.job))
        for one in fleet.slowed
    ]  # fmt: skip
    heads = ("step time", "at least", "before", "after", "runs", "job")
    compared = f"{'' if slowed else 'none of '}{words.counted(fleet.jobs_compared, 'job')} compared"
    yield f"slower since {_day(fleet.since)}", compared, heads, slowed, 1
    if fleet.refused_files:
        title = f"{words.counted(fleet.refused_files, 'file')} could not be read"
        refused = [(words.plain(one.why), words.plain(one.file)) for one in fleet.refused]
        yield title, "", ("why", "file"), refused, 2


def _waste(one: Wasted, gpu: bool) -> tuple[str, ...]:
    taken, lost = (one.taken.gpu, one.wasted.gpu) if one.taken.gpu else (one.taken.core, one.wasted.core)
    return (*_both(one.wasted, gpu), words.percent(lost / taken if taken else None), words.count(one.runs))


def _both(hours: Hours, gpu: bool) -> tuple[str, ...]:
    return (words.count(hours.core), words.count(hours.gpu)) if gpu else (words.count(hours.core),)


def _hours(hours: Hours) -> str:
    core = f"{words.count(hours.core)} core-hours"
    return f"{core} and {words.count(hours.gpu)} GPU-hours" if hours.gpu else core


def _day(instant: str | None) -> str:
    return words.plain(instant or words.UNKNOWN)[:10]
