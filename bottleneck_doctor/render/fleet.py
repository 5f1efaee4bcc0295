"""Draws the tables of ``bdoc fleet`` for a terminal and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len, set_cell_size

from ..model.fleet import Fleet, Hours, Wasted
from . import words
from .terminal import Sheet

GAP = 2
LEAST_NAME = 8  # columns; on a terminal too narrow for it, rows wrap
MOST_ROWS = 1000  # of a query's answer on a terminal
LONGEST = 400  # of a job's name on a page
JUDGED = (
    ("saving", "with a predicted saving"),
    ("healthy", "healthy"),
    ("unknown", "of which no more than a bound is known"),
    ("inconclusive", "inconclusive"),
)


@dataclass(frozen=True)
class FleetTable:
    """One question's table: numbers first, names last; ``said`` is a note, or the text if without rows."""

    id: str
    title: str
    heads: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    said: str = ""
    names: int = 1  # of the columns, the last


def render_fleet(
    fleet: Fleet, format: str, *, width: int | None = None, color: bool = False, encoding: str = "utf-8"
) -> str:
    """All answers for a terminal, as json or as a page of HTML."""
    if format == "json":
        from ..model.codec import encode_report

        return encode_report(fleet).decode()
    answers = list(_answers(fleet))
    grounds = list(_grounds(fleet))
    if format == "html":
        return _page(fleet, grounds, answers)
    sheet = Sheet(width, color, encoding)
    sheet.line(("bdoc fleet", "bold"), f" · {grounds[0]}")
    for line in grounds[1:]:
        sheet.line((line, "dim"), indent=2)
    for one in answers:
        sheet.heading((one.title, "bold"), (f"  {one.said}" if one.said else "", "dim"))
        draw_table(sheet, one.heads, one.rows, one.names)
    return sheet.drawn()


def draw_table(sheet: Sheet, heads: Sequence[str], rows: Sequence[Sequence[str]], names: int) -> None:
    """Columns as wide as what stands in them, numbers to the right; the last one takes what is left."""
    if not rows:
        return
    widths = [max(map(cell_len, map(sheet.fit, column))) for column in zip(heads, *rows, strict=True)]
    room = max(LEAST_NAME, sheet.width - GAP - sum(widths[:-1]) - GAP * (len(widths) - 1))
    for place, row in enumerate([heads, *rows]):
        cells = [
            _cell(sheet.fit(cell), widths[at], at >= len(row) - names) for at, cell in enumerate(row[:-1])
        ]
        text = (" " * GAP).join([*cells, words.short(row[-1], room)])
        sheet.line((text, "dim" if place == 0 else ""), indent=GAP)


def _cell(text: str, width: int, name: bool) -> str:
    return set_cell_size(text, width) if name else " " * (width - cell_len(text)) + text


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
    what = [
        words.counted(totals.runs, "run"),
        words.counted(totals.jobs, "job"),
        words.counted(totals.nodes, "node"),
    ]
    yield " · ".join([*what, f"{_day(totals.first)} to {_day(totals.last)}"])
    yield f"{_hours(totals.taken)}, of which the best remedy of each run would save {_hours(totals.wasted)}"
    yield "runs: " + ", ".join(f"{words.count(getattr(totals, name))} {said}" for name, said in JUDGED)
    if totals.repeated:
        yield f"{words.counted(totals.repeated, 'report')} of runs that another file holds too, left out"


def _answers(fleet: Fleet) -> Iterator[FleetTable]:
    gpu = fleet.totals.taken.gpu > 0
    spent = ("core-hours", "GPU-hours") if gpu else ("core-hours",)
    none = "nothing with a number"
    heads = (*spent, "share", "runs", "cause")
    yield _table(
        "causes", "wasted, by cause", heads, [(*_waste(one, gpu), one.cause) for one in fleet.causes], none
    )
    jobs = [(*_waste(one, gpu), words.plain(one.cause), words.plain(one.job or "")) for one in fleet.jobs]
    yield _table("jobs", "wasted, by job", (*heads, "job"), jobs, none, names=2)
    saved = [
        (*_both(one.saved, gpu), words.count(one.runs), words.count(one.bounded), words.plain(one.remedy),
         words.plain(one.finding))
        for one in fleet.remedies
    ]  # fmt: skip
    heads = (*spent, "runs", "bounds", "remedy", "cures")
    yield _table("remedies", "the one remedy that would save most", heads, saved, none, names=2)
    yield from _moved(fleet)
    if fleet.refused_files:
        title = f"{words.counted(fleet.refused_files, 'file')} could not be read"
        lines = [(words.plain(one.why), words.plain(one.file)) for one in fleet.refused]
        yield FleetTable("refused", title, ("why", "file"), lines, names=2)


def _moved(fleet: Fleet) -> Iterator[FleetTable]:
    slowed = [
        (words.change(one.change), words.change(one.low), words.seconds(one.before_s),
         words.seconds(one.after_s), f"{one.runs_before} + {one.runs_after}", words.plain(one.job))
        for one in fleet.slowed
    ]  # fmt: skip
    compared = f"{words.counted(fleet.jobs_compared, 'job')} compared"
    heads = ("step time", "at least", "before", "after", "runs", "job")
    yield FleetTable(
        "slowed",
        f"slower since {_day(fleet.since)}",
        heads,
        slowed,
        compared if slowed else f"none of {compared}",
    )


def _table(
    id: str, title: str, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], none: str, names: int = 1
) -> FleetTable:
    return FleetTable(id, title, heads, rows, "" if rows else none, names)


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


def _page(fleet: Fleet, grounds: list[str], answers: list[FleetTable]) -> str:
    from .page import page, templates

    body = templates().get_template("fleet.html.j2").render(grounds=grounds, answers=answers, longest=LONGEST)
    return page(f"fleet: {words.counted(fleet.totals.runs, 'run')}", body, {})
