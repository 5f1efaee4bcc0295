"""Arithmetic on stretches of time: lists of (begin, end), in order and without overlaps once merged."""

from __future__ import annotations

from collections.abc import Iterable

Spans = list[tuple[int, int]]

FOREVER = 1 << 62


def merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """The same time, in order and without overlaps."""
    kept: Spans = []
    for begin, end in sorted(spans):
        if kept and begin <= kept[-1][1]:
            kept[-1] = (kept[-1][0], max(end, kept[-1][1]))
        elif end > begin:
            kept.append((begin, end))
    return kept


def common(ours: Spans, theirs: Spans) -> Spans:
    """What lies in both of two merged lists."""
    found: Spans = []
    place = 0
    for begin, end in ours:
        while place < len(theirs) and theirs[place][1] <= begin:
            place += 1
        here = place
        while here < len(theirs) and theirs[here][0] < end:
            found.append((max(begin, theirs[here][0]), min(end, theirs[here][1])))
            here += 1
    return found


def rest(spans: Spans) -> Spans:
    """All time that is not in a merged list."""
    edges = [-FOREVER, *(edge for span in spans for edge in span), FOREVER]
    return [(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True) if end > begin]


def length(spans: Spans) -> int:
    """The time of a merged list, all in all."""
    return sum(end - begin for begin, end in spans)
