"""Sums over steps, whose rows stand for several steps each: their number, seconds, shares and means.

Whoever wants to know of a step, or of a part of it, asks here: the data wait is the same number everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..model.diagnosis import Step
from .intervals import ratio_interval


def steps_in(rows: Iterable[Step]) -> int:
    """How many steps the rows stand for."""
    return sum(row.steps for row in rows)


def seconds_in(rows: Iterable[Step], part: str = "wall") -> float:
    """Seconds of all steps, or of a part of them: a field of ``Step``, none where that was not measured."""
    total: float = sum((getattr(row, part) or 0.0) * row.steps for row in rows)
    return total


def share_in(rows: Iterable[Step], part: str) -> float:
    """The share of the steps' time that a part takes; 0 of nothing."""
    rows = list(rows)
    whole = seconds_in(rows)
    return seconds_in(rows, part) / whole if whole > 0 else 0.0


def share_interval(rows: list[Step], part: str) -> tuple[float, float, float]:
    """(value, low, high): the same share with its 90 % interval."""
    parts, walls = ([getattr(row, name) * row.steps for row in rows] for name in (part, "wall"))
    return ratio_interval(parts, walls)


def span_of(rows: list[Step]) -> tuple[float, float]:
    """From when to when the steps were taken; nothing of no steps."""
    return (rows[0].t - rows[0].wall, rows[-1].t) if rows else (0.0, 0.0)


def mean_in(rows: Iterable[Step], part: str = "wall") -> float:
    """Mean seconds of a step, or of a part of it; 0 of nothing."""
    rows = list(rows)
    count = steps_in(rows)
    return seconds_in(rows, part) / count if count else 0.0
