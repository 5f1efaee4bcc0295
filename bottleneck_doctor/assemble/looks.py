"""Reads the looks at the device's clock: which step of which loop each was, and what happened within."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..agent import wire
from .arrivals import Arrival, Iteration
from .rows import Diary, Row

ALONE = ""  # whose loop it is where no loader feeds it
PARTS = (wire.DEVICE_PART, wire.DEVICE_COPY, wire.DEVICE_WAIT)
Span = tuple[int, int]  # nanoseconds on CLOCK_MONOTONIC


@dataclass(frozen=True)
class Look:
    """One step that was looked at: it stands for ``steps``. Times in nanoseconds: ``wall`` and ``wait`` by
    the device, ``host`` and ``host_wait`` by the loop's thread. ``got`` is when the batch was there."""

    row: Row
    steps: int
    wall: int
    wait: int
    host: int
    host_wait: int
    got: int
    within: list[Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        """When the loop asked for its next batch."""
        return self.row.t + self.row.duration

    @property
    def heard(self) -> bool:
        """Whether copies and calls that wait were listened to in this step."""
        return self.row.c != wire.NOTHING


def read_looks(diary: Diary, iterations: list[Iteration], set_aside: Sequence[Span]) -> dict[str, list[Look]]:
    """The looks at each training loop, by its loader's key, in order of time; none in ``set_aside``."""
    found: dict[str, list[Look]] = {}
    parts = sorted(row for row in diary.rows if row.kind in PARTS)
    for key, look in [*_of_loaders(diary, iterations), *_alone(diary)]:
        if not any(begin < look.end and look.row.t < end for begin, end in set_aside):
            inside = parts[bisect_left(parts, (look.row.t,)) : bisect_right(parts, (look.end,))]
            look.within.extend(row for row in inside if row.thread == look.row.thread)
            found.setdefault(key, []).append(look)
    return {key: sorted(looks, key=lambda look: look.row.t) for key, looks in found.items()}


def _of_loaders(diary: Diary, iterations: list[Iteration]) -> Iterator[tuple[str, Look]]:
    training = [one for one in iterations if one.role == "train"]
    arrivals = sorted(
        (arrival.next.t, place, one.number, one, arrival)
        for one in training
        for place, arrival in enumerate(one.arrivals)
    )
    for row in diary.of(wire.DEVICE_STEP):
        first = bisect_left(arrivals, (row.t,))
        for _, place, _, iteration, arrival in arrivals[first : first + len(training)]:
            if (arrival.next.thread, arrival.next.thing) == (row.thread, row.thing) and not row.e:
                yield iteration.loader, _look(row, iteration, place, arrival)
                break


def _look(row: Row, iteration: Iteration, place: int, arrival: Arrival) -> Look:
    """The first batch of an iterator is always looked at, and stands for itself. What building the iterator
    took is its wait, too, and idleness of the device as far as its first wait was.

    Between its first mark and the loop's wait the agent prepares its look. Meanwhile the device works off
    what is queued, or idles: either way it idles that much longer than it would have without us.
    """
    before = iteration.arrivals[place - 1].next.a if place else 0
    waited, built = max(1, arrival.next.duration), 0 if place else iteration.build
    ours = min(max(0, row.a), max(0, arrival.next.t - row.t))
    wait, whole, host = row.a - ours, row.b - ours, row.duration - ours
    idle = min(1.0, wait / waited)
    steps = max(1, arrival.next.a - before)
    return Look(row, steps, whole + int(idle * built), wait + int(idle * built), host + built,
                waited + built, arrival.t)  # fmt: skip


def _alone(diary: Diary) -> Iterator[tuple[str, Look]]:
    """Of a loop without a loader: from an optimizer step to the next; the wait lasts until a module is
    called."""
    forwards = diary.of(wire.FORWARD)
    times = [row.t for row in forwards]
    for row in diary.of(wire.DEVICE_STEP):
        place = bisect_right(times, row.t) - 1
        if row.e and place > 0 and forwards[place].thread == row.thread:
            gap = forwards[place]
            steps = max(1, gap.a - forwards[place - 1].a)
            yield ALONE, Look(row, steps, row.b, row.a, row.duration, gap.duration, gap.t + gap.duration)
