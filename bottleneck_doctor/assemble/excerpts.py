"""Chooses the consecutive steps of a loop that are kept as they were: seen densely, and like the rest."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

from .steps import Point, Sums

STEPS_AIMED_AT = 40  # enough rounds of a few workers, few enough to be told apart on a screen (ours)
STEPS_AT_LEAST, STEPS_AT_MOST = 8, 64
TRIED_AT_MOST = 4000  # of a long run not every place is tried
LOOKS_AT_LEAST = 4  # or the lanes would be gaps with specks in them
WARMUP_STEPS, WARMUP_SHARE = 10, 0.34  # set aside here; the analysis sets aside no more
PARTS = 16  # of a loop, to tell what is typical of it (ours)
PACE_COUNTS = 0.5  # how an untypical step time weighs against an untypical share of waiting (ours)
UNSEEN_COSTS = 1.0  # as much as that share being off by so much, were no step seen (ours)
SHORT_COSTS = 0.1  # the same, had it no steps (ours)


@dataclass(frozen=True)
class Stretch:
    """From one arrival of a loop to a later one: places among its points, and what lies between."""

    first: int
    last: int
    begin: int
    end: int
    steps: int
    wait: int
    wall: int

    @property
    def looks(self) -> int:
        """Steps in it that were looked at closely."""
        return self.last - self.first

    @property
    def waiting(self) -> float:
        """Share of its time in which the loop waited."""
        return self.wait / max(1, self.wall)


def choose(
    points: list[Point], slots: int, disturbed: list[tuple[int, int]], evaluation: Sums, aimed_at: int
) -> Stretch | None:
    """The stretch of about so many steps that is most like the loop as a whole and best seen; None where none
    will do. ``slots`` batches may be made ahead, ``disturbed`` are stretches of time, in nanoseconds.

    Without evaluation in it, unless the loop evaluates every few steps.
    """
    if len(points) < 2:
        return None
    track = _Track(points, evaluation)
    total = track.steps[-1]
    warmup = min(max(WARMUP_STEPS, 2 * slots), int(WARMUP_SHARE * total))
    lengths = [aimed_at >> halved for halved in range(3) if aimed_at >> halved >= STEPS_AT_LEAST]
    found = [one for length in lengths for one in _stretches(track, warmup, length)]
    found = [one for one in found if not _overlaps(one, disturbed)]
    apart = [one for one in found if not evaluation.between(one.begin, one.end)]
    waiting, pace = _typical(track, warmup)
    return min(apart or found, key=lambda one: _oddness(one, waiting, pace), default=None)


class _Track:
    """A loop's points with sums over them; the first point's own step and wait lie before it."""

    def __init__(self, points: list[Point], evaluation: Sums) -> None:
        self.points, self.evaluation = points, evaluation
        self.steps = list(accumulate((max(1, point.steps) for point in points[1:]), initial=0))
        self.waits = list(accumulate((point.wait for point in points[1:]), initial=0))

    def stretch(self, first: int, last: int) -> Stretch:
        """What lies between two points; evaluation is none of its time."""
        begin, end = self.points[first].arrival.t, self.points[last].arrival.t
        steps, wait = self.steps[last] - self.steps[first], self.waits[last] - self.waits[first]
        wall = end - begin - self.evaluation.between(begin, end)
        return Stretch(first, last, begin, end, steps, wait, max(1, wall))


def _stretches(track: _Track, warmup: int, aimed_at: int) -> Iterator[Stretch]:
    """One stretch from each point on: as many steps as are aimed at, or what is left at the loop's end."""
    begin, end = bisect_left(track.steps, warmup), len(track.steps) - 1
    for first in range(begin, end, max(1, (end - begin) // TRIED_AT_MOST)):
        last = min(bisect_left(track.steps, track.steps[first] + aimed_at), len(track.steps) - 1)
        one = track.stretch(first, last)
        if STEPS_AT_LEAST <= one.steps <= STEPS_AT_MOST and one.looks >= LOOKS_AT_LEAST:
            yield one


def _overlaps(one: Stretch, disturbed: list[tuple[int, int]]) -> bool:
    return any(begin < one.end and one.begin < end for begin, end in disturbed)


def _typical(track: _Track, warmup: int) -> tuple[float, float]:
    """The share of waiting and the nanoseconds per step of the loop's parts, half of which have less: of what
    changes for good in mid-run, the longer part counts."""
    total = track.steps[-1]
    edges = (warmup + (total - warmup) * place // PARTS for place in range(PARTS + 1))
    places = sorted({bisect_left(track.steps, edge) for edge in edges})
    parts = [track.stretch(first, last) for first, last in pairwise(places)] or [track.stretch(0, 1)]
    return median(one.waiting for one in parts), median(one.wall / one.steps for one in parts)


def _oddness(one: Stretch, waiting: float, pace: float) -> float:
    """How unlike the rest of the loop a stretch is, how much of it nobody saw, and how little it shows."""
    off = min(1.0, abs(one.wall / one.steps / pace - 1))
    unseen = 1 - one.looks / one.steps
    short = max(0.0, 1 - one.steps / STEPS_AIMED_AT)
    return abs(one.waiting - waiting) + PACE_COUNTS * off + UNSEEN_COSTS * unseen + SHORT_COSTS * short
