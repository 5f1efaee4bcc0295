"""One lane of the picture: stretches of time on it, laid out so that none covers another; pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

SHORTEST_S = 1e-8  # nothing shorter can be seen, and rounding leaves such


class LanePiece(NamedTuple):
    """A stretch of a lane, in seconds from the run's start."""

    begin: float
    end: float
    what: str
    batch: int | None = None


def layered(spans: Iterable[LanePiece]) -> list[LanePiece]:
    """The same time without overlaps: what lies inside another is cut out of it."""
    found: list[LanePiece] = []
    around: list[LanePiece] = []
    reached = float("-inf")

    def pass_over(until: float) -> None:
        nonlocal reached
        if around and min(until, around[-1].end) > reached:
            end = min(until, around[-1].end)
            found.append(around[-1]._replace(begin=reached, end=end))
            reached = end

    for span in sorted(spans, key=lambda one: (one.begin, -one.end)):
        while around and around[-1].end <= span.begin:
            pass_over(around[-1].end)
            around.pop()
        pass_over(span.begin)
        reached = max(reached, span.begin)
        around.append(span)
    while around:
        pass_over(around[-1].end)
        around.pop()
    return _visible(found)


def in_turn(begin: float, batch: int | None, lengths: Iterable[tuple[str, float]]) -> list[LanePiece]:
    """Pieces one after another; those of no length are left out."""
    found = []
    for what, length in lengths:
        found.append(LanePiece(begin, begin + length, what, batch))
        begin += length
    return _visible(found)


def clipped(pieces: Iterable[LanePiece], begin: float, end: float) -> list[LanePiece]:
    """What of the pieces lies between two instants."""
    cut = (one._replace(begin=max(begin, one.begin), end=min(end, one.end)) for one in pieces)
    return _visible(list(cut))


def one_at_a_time(pieces: Iterable[LanePiece]) -> list[LanePiece]:
    """The pieces in order, each cut where the next begins: a process that ends may overlap its successor."""
    ordered = sorted(pieces, key=lambda one: one.begin)
    cut = [one._replace(end=min(one.end, later.begin)) for one, later in pairwise(ordered)]
    return _visible([*cut, *ordered[-1:]])


def _visible(pieces: list[LanePiece]) -> list[LanePiece]:
    return [one for one in pieces if one.end - one.begin > SHORTEST_S]
