"""Sums over steps, whose rows stand for several steps each: their number, seconds, shares and means."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.diagnosis import Step


def steps_in(rows: Iterable[Step]) -> int:
    """How many steps the rows stand for."""
    return sum(row.steps for row in rows)


def seconds_in(rows: Iterable[Step], part: str = "wall") -> float:
    """Seconds of all steps, or of a part of them: a field of ``Step``."""
    total: float = sum(getattr(row, part) * row.steps for row in rows)
    return total


def share_in(rows: Iterable[Step], part: str) -> float:
    """The share of the steps' time that a part takes; 0 of nothing."""
    rows = list(rows)
    whole = seconds_in(rows)
    return seconds_in(rows, part) / whole if whole > 0 else 0.0


def mean_in(rows: Iterable[Step], part: str = "wall") -> float:
    """Mean seconds of a step, or of a part of it; 0 of nothing."""
    rows = list(rows)
    count = steps_in(rows)
    return seconds_in(rows, part) / count if count else 0.0
