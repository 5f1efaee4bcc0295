"""Stretches of time, (begin, end) each: joined, cut, and taken away from each other. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Stretch = tuple[float, float]


def joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time in stretches that neither touch nor overlap, in order."""
    found: list[Stretch] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        elif end > begin:
            found.append((begin, end))
    return found


def gaps(stretches: list[Stretch], begin: float, end: float) -> list[Stretch]:
    """What joined stretches leave free of [begin, end)."""
    found, reached = [], begin
    for place in range(max(0, bisect_right(stretches, (begin, begin)) - 1), len(stretches)):
        first, last = stretches[place]
        if first >= end:
            break
        if first > reached:
            found.append((reached, first))
        reached = max(reached, last)
    if reached < end:
        found.append((reached, end))
    return found


def shared(stretches: list[Stretch], begin: float, end: float) -> list[Stretch]:
    """What joined stretches have in [begin, end)."""
    found = []
    for place in range(max(0, bisect_right(stretches, (begin, begin)) - 1), len(stretches)):
        first, last = stretches[place]
        if first >= end:
            break
        if last > begin:
            found.append((max(first, begin), min(last, end)))
    return found


def length(stretches: Iterable[Stretch]) -> float:
    """The time in them."""
    return sum(end - begin for begin, end in stretches)
