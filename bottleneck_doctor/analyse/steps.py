"""Sums over steps, whose rows stand for several each, and 90 % intervals of their means and shares."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from ..model.diagnosis import Step


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


SAMPLES_AT_LEAST = 20  # or a share of them is a guess: 90 % intervals are wider than 0.18 (ours)

Z90 = 1.65  # standard errors of a share, for its 90 % interval
RESAMPLES = 200
SEED = 20_13
BLOCKS = 24  # steps depend on their neighbours; blocks this coarse keep that dependence


def ratio_interval(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """(value, low, high) of sum(above)/sum(below), both in the same order of time."""
    total = sum(below)
    if not above or total <= 0:
        return 0.0, 0.0, 0.0
    value = sum(above) / total
    pairs = _blocks(above, below)
    if len(pairs) < 3:
        return value, value, value
    chance = random.Random(SEED)
    found = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(pairs, k=len(pairs))
        bottom = sum(pair[1] for pair in drawn)
        found.append(sum(pair[0] for pair in drawn) / bottom if bottom > 0 else value)
    found.sort()
    return value, min(value, found[int(0.05 * RESAMPLES)]), max(value, found[int(0.95 * RESAMPLES) - 1])


def mean_interval(values: Sequence[float], weights: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high) of values that each stand for ``weights`` observations."""
    return ratio_interval([value * weight for value, weight in zip(values, weights, strict=True)], weights)


def _blocks(above: Sequence[float], below: Sequence[float]) -> list[tuple[float, float]]:
    size = max(1, len(above) // BLOCKS)
    return [
        (sum(above[place : place + size]), sum(below[place : place + size]))
        for place in range(0, len(above) - size + 1, size)
    ]
