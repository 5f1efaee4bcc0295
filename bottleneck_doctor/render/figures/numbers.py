"""The numbers behind the charts as tables of words, for whoever reads instead of looking."""

from __future__ import annotations

from dataclasses import dataclass

from ...model.picture import Lanes, Mark, Timeline
from ...model.report import Remedy
from .. import words
from ..compose import is_alternative
from .lanes import called, kinds_in, lane_names
from .staircase import stairs_of
from .timeline import curve_words, flat, mark_words, plot_words, plots_of, unit_of

PARTS = 10  # of the run, for which means are told
MOST_MARKS = 40


@dataclass(frozen=True)
class Table:
    """Rows of words under their heads; the first column names the row."""

    heads: list[str]
    rows: list[list[str]]


def timeline_table(timeline: Timeline) -> Table:
    """The mean of each curve in each tenth of the run, by the points that are drawn."""
    part_s = (words.drawn(timeline.duration_s) or 0.0) / PARTS
    heads = [f"from {words.seconds(part_s * part)}" for part in range(PARTS)]
    rows = []
    for curve in timeline.curves:
        sums, counts = [0.0] * PARTS, [0] * PARTS
        for t, value in zip(curve.t, curve.value, strict=True):
            if words.drawn(value) is None or value is None or words.drawn(t) is None:
                continue
            part = min(PARTS - 1, max(0, int(t / part_s))) if part_s > 0 else 0
            sums[part] += value
            counts[part] += 1
        if any(counts):
            means = zip(sums, counts, strict=True)
            told = [words.quantity(curve.name, total / count) if count else "" for total, count in means]
            names = [plot_words((curve.group, unit_of(curve.name))), curve_words(curve)]
            rows.append([": ".join(filter(None, names)), *told])
    return Table(["", *heads], rows)


def flat_told(timeline: Timeline) -> str:
    """The plots that are not drawn because all of them is zero."""
    names = [plot_words(plot) for plot, curves in plots_of(timeline).items() if flat(curves)]
    return f"Zero all along, and not drawn: {', '.join(names)}." if names else ""


def marks_told(marks: list[Mark]) -> list[str]:
    """Every mark in words; the rest is counted."""
    said = [mark_words(mark) for mark in marks[:MOST_MARKS]]
    rest = len(marks) - len(said)
    return [*said, f"{words.counted(rest, 'more stretch', 'more stretches')}"] if rest else said


def lanes_table(lanes: Lanes) -> Table:
    """How long each lane did what, and the share of the time shown."""
    names, kinds = lane_names(lanes), kinds_in(lanes)
    whole = lanes.end_s - lanes.begin_s
    sums: dict[tuple[int, str], float] = {}
    for lane, length_s, what in zip(lanes.pieces.lane, lanes.pieces.length_s, lanes.pieces.what, strict=True):
        sums[lane, what] = sums.get((lane, what), 0.0) + length_s
    rows = [
        [name, *(_sum(sums.get((lane, kind)), whole) for kind in kinds)] for lane, name in enumerate(names)
    ]
    return Table(["", *(called(kind)[0] for kind in kinds)], rows)


def _sum(length_s: float | None, whole_s: float) -> str:
    if length_s is None or not whole_s > 0:
        return ""
    return f"{words.seconds(length_s)} ({words.percent(length_s / whole_s)})"


def staircase_table(remedies: list[Remedy]) -> Table:
    """The stairs as they are drawn."""
    rows = []
    for rank, remedy in enumerate(stairs_of(remedies), start=1):
        alone = remedy.predicted_speedup
        together = words.ratio(remedy.combined_speedup) if remedy.combined_speedup is not None else ""
        if is_alternative(remedy, remedies):
            together = "adds nothing to those above"
        title = words.capital(words.short(words.plain(remedy.title), 120))
        rows.append([f"{rank}. {title}", words.promised(alone), words.promised_range(alone), together])
    return Table(["remedy", "alone", "range", "with all above it"], rows)
