"""Stretches of time, and durations by instant."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import TypeVar

Instant = TypeVar("Instant", int, float)
Stretch = tuple[float, float]


def joined(stretches: Iterable[tuple[Instant, Instant]]) -> list[tuple[Instant, Instant]]:
    """The same time in stretches that neither touch nor overlap, in order."""
    found: list[tuple[Instant, Instant]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif end > begin:
            found.append((begin, end))
    return found


def shared(
    stretches: list[tuple[Instant, Instant]], begin: Instant, end: Instant
) -> list[tuple[Instant, Instant]]:
    """What joined stretches have in [begin, end)."""
    first = bisect_right(stretches, begin, key=lambda one: one[1])
    last = bisect_left(stretches, end, key=lambda one: one[0])
    return [(max(one, begin), min(other, end)) for one, other in stretches[first:last]]


def gaps(
    stretches: list[tuple[Instant, Instant]], begin: Instant, end: Instant
) -> list[tuple[Instant, Instant]]:
    """What joined stretches leave free of [begin, end)."""
    found: list[tuple[Instant, Instant]] = []
    for first, last in shared(stretches, begin, end):
        if begin < first:
            found.append((begin, first))
        begin = last
    if begin < end:
        found.append((begin, end))
    return found


def length(stretches: Iterable[tuple[Instant, Instant]]) -> Instant:
    """The time in them."""
    return sum(end - begin for begin, end in stretches)


class Sums:
    """Durations by instant, (instant, nanoseconds) each, to be summed over any stretch of time."""

    def __init__(self, durations: Iterable[tuple[int, int]] = ()) -> None:
        pairs = sorted(durations)
        self.t = [t for t, _ in pairs]
        self.total = [0, *accumulate(duration for _, duration in pairs)]

    def between(self, begin: int, end: int) -> int:
        """Nanoseconds of those that begin in [begin, end)."""
        return self.total[bisect_left(self.t, end)] - self.total[bisect_left(self.t, begin)]
