"""Turns arrivals into steps: what lies between one batch in the training loop and the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from statistics import fmean

from ..agent import wire
from ..model.loops import StepTable
from .iterators import Iteration, SampledArrival
from .rows import ProcessLog, Row

BEYOND = 3.0  # standard errors: steps that took longer than this held what no look has met (ours)
ENOUGH = 8  # looked-at steps that tell how a part and the step vary together (ours)


@dataclass(frozen=True)
class PartEstimate:
    """How a part is estimated from the step: both means, and how much of what a step takes beyond its mean is
    that part. A slope of 0 says that steps tell nothing of it."""

    part: float = 0.0
    step: float = 0.0
    slope: float = 0.0

    @classmethod
    def of(cls, parts: Sequence[float], steps: Sequence[float], rest: float, count: int) -> PartEstimate:
        """From looked-at steps, for ``count`` others that took ``rest`` together, in the same unit."""
        part, step = fmean(parts), fmean(steps)
        spread = sum((one - step) ** 2 for one in steps)
        if len(steps) < ENOUGH or not spread or not count:
            return cls(part, step)
        error = sqrt(spread / (len(steps) - 1) * count * (1 + count / len(steps)))
        if rest - count * step > BEYOND * error:
            return cls(part, step)
        if count * step - rest > BEYOND * error:  # a look empties caches, which lengthens all that follows
            return cls(part * rest / (count * step), rest / count)
        together = sum((one - part) * (other - step) for one, other in zip(parts, steps, strict=True))
        return cls(part, step, min(1.0, max(0.0, together / spread)))

    def estimate(self, rest: float, count: int) -> float:
        """The part's time in ``count`` steps that took ``rest`` together."""
        found = count * self.part + self.slope * (rest - count * self.step)
        return min(rest, max(0.0, found))


def estimate_rows(
    column: list[float] | list[float | None], own: list[float], steps: list[int], counted: Iterable[int]
) -> None:
    """Estimate a part in the rows of several steps, of which one was looked at, by what these took as a whole
    (``own``). Where that tells nothing of the part, all of them are taken to be like the one."""
    places = list(counted)
    single = [place for place in places if steps[place] == 1]
    several = [place for place in places if steps[place] > 1]
    if not single or not several:
        return
    rest, count = sum(own[place] for place in several), sum(steps[place] for place in several)
    parts = [column[place] or 0.0 for place in single]
    line = PartEstimate.of(parts, [own[place] for place in single], rest, count)
    for place in several if line.slope else ():
        column[place] = line.estimate(max(0.0, own[place]), steps[place])


S = 1e-9
ROWS_AT_MOST = 4096
FIRST_ROWS = 10  # their steps are warm-up


@dataclass(frozen=True)
class Sums:
    """Durations by instant, ready to be summed over any stretch of time."""

    t: list[int]
    total: list[int]

    def between(self, begin: int, end: int) -> int:
        """Nanoseconds of the entries that begin in [begin, end)."""
        return self.total[bisect_left(self.t, end)] - self.total[bisect_left(self.t, begin)]


def sums(rows: Iterable[tuple[int, int]]) -> Sums:
    """Sum up (instant, duration) pairs."""
    times, total = [], [0]
    for t, duration in sorted(rows):
        times.append(t)
        total.append(total[-1] + duration)
    return Sums(times, total)


@dataclass(frozen=True)
class Marks:
    """What else happened on a loop's thread, by kind."""

    backward: Sums
    optimizer: Sums
    checkpoint: Sums
    logging: Sums
    copy: Sums
    collect: Sums
    fetch_queue: Sums
    exchange: Sums
    passes: Sums  # backward passes inside of optimizer steps
    zeroed: Sums
    usage: dict[int, Row]  # by the instant of the look that it belongs to


def read_marks(log: ProcessLog, thread: int) -> Marks:
    """Index the rows of one thread."""

    def of(kind: int, which: int | None = None) -> Sums:
        rows = (row for row in log.rows if row.kind == kind and row.thread == thread)
        return sums((row.t, row.duration) for row in rows if which is None or row.c == which)

    checkpoint, logging, copy = (of(wire.OPERATION, place) for place in range(3))  # not "flush"
    whole, exchange = of(wire.BACKWARD), sums(exchanges(log, thread))
    passes = [row for row in log.rows if row.kind == wire.BACKWARD and row.thread == thread]
    backward = sums((row.t, row.duration - exchange.between(row.t, row.t + row.duration)) for row in passes)
    steps = [row for row in log.rows if row.kind == wire.OPTIMIZER and row.thread == thread]
    closures = _within_closures(steps, sorted(passes, key=lambda row: row.t))
    optimizer = sums((row.t, row.duration - taken) for row, taken in zip(steps, closures, strict=True))
    queue = sums((row.t, max(0, row.b)) for row in log.rows if row.kind == wire.FETCH)
    inside = sums((row.t, int(whole.between(row.t, row.t + row.duration) > 0)) for row in steps)
    collect = of(wire.COLLECTION)
    zeroed = of(wire.ZEROED)
    usage = {row.t: row for row in log.rows if row.kind == wire.USAGE and row.thread == thread}
    return Marks(
        backward, optimizer, checkpoint, logging, copy, collect, queue, exchange, inside, zeroed, usage
    )


def _within_closures(steps: list[Row], passes: list[Row]) -> Iterator[int]:
    """Nanoseconds of each optimizer step until the last backward pass inside of it ended: those of a closure
    that runs the model, as Lightning's does."""
    begins = [row.t for row in passes]
    for step in steps:
        inside = passes[bisect_left(begins, step.t) : bisect_left(begins, step.t + step.duration)]
        last = max((row.t + row.duration for row in inside), default=step.t)
        yield min(step.duration, last - step.t)


def exchanges(log: ProcessLog, thread: int) -> list[tuple[int, int]]:
    """(instant, nanoseconds asleep) of everything in which a thread waited for other ranks; what a backward
    pass calls while it exchanges gradients is part of that exchange."""
    passes = [row for row in log.rows if row.kind == wire.EXCHANGE and row.thread == thread and row.thing]
    inside = sums((row.t, 1) for row in passes)
    ends = sums((row.t + row.duration, 1) for row in passes)
    calls = (row for row in log.rows if row.kind == wire.COLLECTIVE and row.thread == thread)
    apart = [row for row in calls if inside.between(0, row.t) == ends.between(0, row.t)]
    return [(row.t, asleep(row)) for row in passes + apart]


def asleep(row: Row) -> int:
    """What of a row's time was neither on the CPU (``a``) nor waiting for one (``b``), as far as is known."""
    return max(0, row.duration - max(0, row.a) - max(0, row.b))


@dataclass(frozen=True)
class Gone:
    """Time that belongs to no step: evaluation, and what our own close looks took."""

    evaluation: Sums
    looks: Sums


@dataclass(frozen=True)
class ArrivalPoint:
    """An arrival on the loop's time line, with the steps and the wait since the last point."""

    arrival: SampledArrival
    epoch: int
    steps: int
    wait: int


def line_up(iterations: list[Iteration]) -> list[ArrivalPoint]:
    """All arrivals of a loop in order, with the steps and the wait since the previous one.

    ``next`` counts arrivals and wait per iteration; what an exhausted iterator cost at its end, its last
    steps that were not looked at, and what building the next one took belong to the row that spans the two.
    """
    points: list[ArrivalPoint] = []
    left_over = unseen = 0
    for epoch, one in enumerate(iterations):
        seen, waited = 0, 0
        for arrival in one.arrivals:
            wait = arrival.next.c - waited + left_over
            points.append(ArrivalPoint(arrival, epoch, arrival.next.a - seen + unseen, wait))
            seen, waited, left_over, unseen = arrival.next.a, arrival.next.c, 0, 0
        if one.end is not None:
            left_over += max(0, one.end.c - waited)
            unseen += max(0, one.end.d - seen)
    return points


def tabulate(points: list[ArrivalPoint], marks: Marks, gone: Gone, others: Sums, origin: int) -> StepTable:
    """One row per point after the first. ``others`` are the waits for further training loaders of the same
    loop."""
    table = StepTable()
    for before, point in pairwise(points):
        _append(table, before, point, marks, gone, others, origin)
    for column in (table.backward_s, table.optimizer_s, table.copy_s, table.exchange_s):
        _estimate(table, column)
    return thin(table)


def _estimate(table: StepTable, column: list[float] | list[float | None]) -> None:
    """A part's time in rows of several steps, of which one was looked at, by what these took as a whole."""
    own = [
        wall - wait - saved - logged for wall, wait, saved, logged
        in zip(table.wall_s, table.wait_s, table.checkpoint_s, table.logging_s, strict=True)
    ]  # fmt: skip
    counted = [place for place, aside in enumerate(table.set_aside) if not aside and place >= FIRST_ROWS]
    estimate_rows(column, own, table.steps, counted)


def _append(
    table: StepTable,
    before: ArrivalPoint,
    point: ArrivalPoint,
    marks: Marks,
    gone: Gone,
    others: Sums,
    origin: int,
) -> None:
    begin, end = before.arrival.t, point.arrival.t
    absent = gone.evaluation.between(begin, end)
    steps = max(1, point.steps)
    wait = point.wait + others.between(begin, end)
    wall = max(end - begin - absent - gone.looks.between(begin, end), wait, 1)
    first, last = before.arrival, point.arrival
    inside = last.next.b * steps
    table.t.append((end - origin) * S)
    table.steps.append(steps)
    table.epoch.append(point.epoch)
    table.wall_s.append(wall * S)
    table.wait_s.append(wait * S)
    table.wait_cpu_s.append(inside * S)
    outside = last.loop.a - first.loop.a - first.next.b - last.next.b * (steps - 1)
    table.cpu_s.append(max(0, outside) * S)
    table.process_cpu_s.append(max(0, last.loop.b - first.loop.b) * S)
    queue = last.loop.c - first.loop.c
    known = last.loop.c != wire.NOTHING and first.loop.c != wire.NOTHING
    table.runq_s.append(max(0, queue) * S if known else None)
    table.wait_runq_s.append(max(0, last.loop.e) * steps * S if known else None)
    table.backward_s.append(marks.backward.between(begin, end) * steps * S)
    table.optimizer_s.append(marks.optimizer.between(begin, end) * steps * S)
    table.copy_s.append(marks.copy.between(begin, end) * steps * S)
    table.exchange_s.append(marks.exchange.between(begin, end) * steps * S)
    for column, kind in ((table.checkpoint_s, marks.checkpoint), (table.logging_s, marks.logging)):
        column.append(kind.between(begin, end) * S)
    table.collect_s.append(marks.collect.between(begin, end) * S)
    system, faults = used_between(marks, first.next.t, last.next.t)
    table.system_s.append(system)
    table.minor_faults.append(faults)
    table.ready.append(last.loop.d if last.loop.d != wire.NOTHING else None)
    table.set_aside.append("" if absent < 0.5 * (end - begin) else "evaluation")


def used_between(marks: Marks, begin: int, end: int) -> tuple[float | None, int | None]:
    """(system CPU seconds, minor faults) of the process between two looks; None where either lacks them."""
    first, last = marks.usage.get(begin), marks.usage.get(end)
    if first is None or last is None:
        return None, None
    return max(0, last.a - first.a) * S, max(0, last.b - first.b)


def thin(table: StepTable, at_most: int = ROWS_AT_MOST) -> StepTable:
    """Merge neighbours until the table is short enough; sums stay exact."""
    while len(table.t) > at_most:
        table = _halve(table)
    return table


def _halve(table: StepTable) -> StepTable:
    merged = StepTable()
    summed = (
        "steps wall_s wait_s cpu_s wait_cpu_s process_cpu_s runq_s wait_runq_s backward_s optimizer_s "
        "checkpoint_s logging_s collect_s copy_s exchange_s system_s minor_faults"
    ).split()
    for place in range(0, len(table.t), 2):
        pair = slice(place, place + 2)
        for name in summed:
            values = [value for value in getattr(table, name)[pair] if value is not None]
            getattr(merged, name).append(sum(values) if values else None)
        for name in ("t", "epoch", "ready"):
            getattr(merged, name).append(getattr(table, name)[pair][-1])
        merged.set_aside.append(max(table.set_aside[pair]))
    return merged


def flag(table: StepTable, windows: list[tuple[float, float]], reason: str) -> None:
    """Set aside the steps during which a disturbing instrument ran."""
    for place, (end, wall) in enumerate(zip(table.t, table.wall_s, strict=True)):
        if any(begin < end and end - wall < stop for begin, stop in windows):
            table.set_aside[place] = table.set_aside[place] or reason
