"""The lanes and the course of a run as a trace that Perfetto and chrome://tracing open.

The Trace Event Format (docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): instants are
whole microseconds from the run's start, since viewers drop slices of one thread that overlap by a nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

from ..model.picture import Lanes, Picture, Timeline
from ..model.report import Report
from . import words
from .figures.lanes import KINDS

LANES, COURSE = 1, 2  # the two "processes" of the trace
LOOP = 1  # the training loop's "thread" in the first; workers follow
NAME_AT_MOST = 80
INSIDE_US = 1  # arrows begin and end so far inside their slices: at an edge a viewer may pick the neighbour

Value = dict[str, object]


def trace(report: Report, picture: Picture) -> str:
    """JSON in the Trace Event Format; without lanes, where none of the steps were kept."""
    lanes = _lanes(picture.lanes) if picture.lanes is not None else ()
    events = sorted([*_course(picture.timeline), *lanes], key=_instant)
    whole = {
        "displayTimeUnit": "ms",
        "otherData": _summary(report),
        "traceEvents": [*_names(picture.lanes), *events],
    }
    return json.dumps(whole, separators=(",", ":"), allow_nan=False) + "\n"


def _instant(event: Value) -> tuple[int, bool]:
    """In order of time, and of slices before the arrows on them."""
    return _start(event), event["ph"] in ("s", "f")


def _summary(report: Report) -> Value:
    """The run that the trace shows, as text that viewers show unchanged."""
    run, verdict = report.run, report.verdict
    told = {
        "script": run.script or " ".join(run.command[:1]),
        "bound": verdict.bound,
        "cause": verdict.cause,
        "verdict": verdict.summary,
        "confidence": verdict.confidence,
        "counters": "where nothing was measured they keep their last value",
    }
    return {name: words.short(words.plain(text), 4 * NAME_AT_MOST) for name, text in told.items()}


def _names(lanes: Lanes | None) -> list[Value]:
    """What the processes and threads of the trace are called, and their order."""
    named = [_meta("process_name", COURSE, 0, name="the whole run")]
    named.append(_meta("process_sort_index", COURSE, 0, sort_index=COURSE))
    if lanes is None:
        return named
    named.append(_meta("process_name", LANES, 0, name=f"{words.counted(lanes.steps, 'step')} in detail"))
    named.append(_meta("process_sort_index", LANES, 0, sort_index=LANES))
    threads = ["training loop", *(f"worker {number}" for number in lanes.workers)]
    for place, name in enumerate(threads, LOOP):
        named.append(_meta("thread_name", LANES, place, name=name))
        named.append(_meta("thread_sort_index", LANES, place, sort_index=place))
    return named


def _meta(kind: str, process: int, thread: int, **args: object) -> Value:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": args}


def _lanes(lanes: Lanes) -> Iterable[Value]:
    """Each piece as a slice; an arrow from the end of a fetch to what the loop does with its batch."""
    slices = _slices(lanes)
    made: dict[int, Value] = {}
    used: dict[int, Value] = {}
    for what, batch, piece in slices:
        yield piece
        if batch is None or what in ("idle", "unseen"):
            continue
        if piece["tid"] != LOOP:
            made[batch] = piece
        elif what != "wait":
            used.setdefault(batch, piece)
    for batch in made.keys() & used.keys():
        if _start(made[batch]) <= _start(used[batch]):
            yield from _arrow(batch, made[batch], used[batch])


def _start(piece: Value) -> int:
    at = piece["ts"]
    assert isinstance(at, int)
    return at


def _end(piece: Value) -> int:
    length = piece["dur"]
    assert isinstance(length, int)
    return _start(piece) + length


def _slices(lanes: Lanes) -> list[tuple[str, int | None, Value]]:
    """(what, batch, slice) of each piece, by lane and time; none is below a microsecond, none overlaps."""
    pieces = lanes.pieces
    rows = sorted(
        zip(pieces.lane, pieces.begin_s, pieces.length_s, pieces.what, pieces.batch, strict=True),
        key=lambda row: row[:2],
    )
    found = []
    for row, after in pairwise([*rows, None]):
        assert row is not None
        lane, begin_s, length_s, what, batch = row
        begin, end = _microseconds(begin_s), _microseconds(begin_s + length_s)
        if after is not None and after[0] == lane:
            end = min(end, _microseconds(after[1]))
        if end > begin:
            name, _ = KINDS.get(what, (words.plain(what), 0.0))
            args = {"kind": what} if batch is None else {"kind": what, "batch": batch}
            cat = "loop" if lane == 0 else "worker"
            head = {"ph": "X", "name": words.short(name, NAME_AT_MOST), "cat": cat, "pid": LANES}
            piece: Value = {**head, "tid": lane + LOOP, "ts": begin, "dur": end - begin, "args": args}
            found.append((what, batch, piece))
    return found


def _microseconds(seconds: float) -> int:
    return max(0, round(1e6 * seconds))


def _arrow(batch: int, made: Value, used: Value) -> list[Value]:
    """An arrow from the slice that finishes a batch to the slice in which the loop has it."""
    arrived = _start(used)
    left = min(_end(made) - INSIDE_US, arrived)
    flow: Value = {"name": "batch", "cat": "batch", "id": batch, "pid": LANES}
    return [
        {"ph": "s", **flow, "tid": made["tid"], "ts": left},
        {"ph": "f", "bp": "e", **flow, "tid": LOOP, "ts": min(arrived + INSIDE_US, _end(used) - INSIDE_US)},
    ]


def _course(timeline: Timeline) -> Iterable[Value]:
    """Curves as counters, marks as asynchronous slices: they may overlap."""
    for curve in timeline.curves:
        name = words.short(words.plain(curve.name), NAME_AT_MOST)
        for t, value in zip(curve.t, curve.value, strict=True):
            if value is not None:
                yield {
                    "ph": "C", "name": name, "cat": curve.group, "pid": COURSE, "tid": 0,
                    "ts": _microseconds(t), "args": {"value": value},
                }  # fmt: skip
    for number, mark in enumerate(timeline.marks):
        label = f"{mark.kind}: {mark.label}" if mark.label else mark.kind
        name = words.short(words.plain(label), NAME_AT_MOST)
        head: Value = {"name": name, "cat": mark.kind, "id": number, "pid": COURSE, "tid": 0}
        begin = _microseconds(mark.begin_s)
        yield {"ph": "b", **head, "ts": begin}
        yield {"ph": "e", **head, "ts": max(begin, _microseconds(mark.end_s))}
