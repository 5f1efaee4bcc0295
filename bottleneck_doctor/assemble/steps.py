"""Turns arrivals into steps: what lies between one batch in the training loop and the next."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from math import sqrt
from statistics import fmean

from ..agent import wire
from ..model.loops import StepTable
from .loaders import Iteration, SampledArrival
from .rows import ProcessLog, Row, S, append

BEYOND = 3.0  # standard errors: unsampled steps that took longer held a stall that no sample has (chosen)
ENOUGH = 8  # sampled steps needed to fit how a part varies with the step (chosen)


@dataclass(frozen=True)
class PartEstimate:
    """How a part is estimated from the step's time: both means, and the slope, the part's share of what a
    step takes beyond its mean. With a slope of 0 the step's time does not predict the part."""

    part: float = 0.0
    step: float = 0.0
    slope: float = 0.0

    @classmethod
    def of(cls, parts: Sequence[float], steps: Sequence[float], rest: float, count: int) -> PartEstimate:
        """From sampled steps, for ``count`` others that took ``rest`` together, in the same unit."""
        part, step = fmean(parts), fmean(steps)
        spread = sum((one - step) ** 2 for one in steps)
        if len(steps) < ENOUGH or not spread or not count:
            return cls(part, step)
        error = sqrt(spread / (len(steps) - 1) * count * (1 + count / len(steps)))
        if rest - count * step > BEYOND * error:
            return cls(part, step)
        if count * step - rest > BEYOND * error:  # sampling evicts CPU caches, which slows the sampled step
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
    """Estimate a part in rows of several steps, of which one was sampled, from their total time (``own``).
    Where that does not predict the part, all steps of the row are taken to be like the sampled one."""
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


def durations(rows: Iterable[Row]) -> Sums:
    """Those of rows."""
    return sums((row.t, row.duration) for row in rows)


@dataclass(frozen=True)
class Marks:
    """What else happened on a loop's thread, by kind."""

    backward: Sums
    optimizer: Sums
    checkpoint: Sums
    logging: Sums
    copy: Sums
    collect: Sums
    exchange: Sums
    passes: Sums  # backward passes inside of optimizer steps
    zeroed: Sums
    usage: dict[int, Row]  # by the instant of the sample that it belongs to


def read_marks(log: ProcessLog, thread: int) -> Marks:
    """Index the rows of one thread."""

    def of(kind: int) -> list[Row]:
        return log.of(kind, thread=thread)

    def operations(name: str) -> Sums:
        which = wire.OPERATIONS.index(name)
        return durations(row for row in of(wire.OPERATION) if row.operation == which)

    passes, steps = of(wire.BACKWARD), of(wire.OPTIMIZER)
    whole, exchange = durations(passes), sums(exchanges(log, thread))
    closures = _within_closures(steps, passes)
    return Marks(
        backward=sums((row.t, row.duration - exchange.between(row.t, row.end)) for row in passes),
        optimizer=sums((row.t, row.duration - taken) for row, taken in zip(steps, closures, strict=True)),
        checkpoint=operations("checkpoint"),
        logging=operations("logging"),
        copy=operations("copy"),
        collect=durations(of(wire.COLLECTION)),
        exchange=exchange,
        passes=sums((row.t, int(whole.between(row.t, row.end) > 0)) for row in steps),
        zeroed=durations(of(wire.ZERO_GRAD)),
        usage={row.t: row for row in of(wire.USAGE)},
    )


def _within_closures(steps: list[Row], passes: list[Row]) -> Iterator[int]:
    """Nanoseconds of each optimizer step until the last backward pass inside of it ended: those of a closure
    that runs the model, as Lightning's does."""
    begins = [row.t for row in passes]
    for step in steps:
        inside = passes[bisect_left(begins, step.t) : bisect_left(begins, step.end)]
        last = max((row.end for row in inside), default=step.t)
        yield min(step.duration, last - step.t)


def exchanges(log: ProcessLog, thread: int) -> list[tuple[int, int]]:
    """(instant, nanoseconds asleep) of everything in which a thread waited for other ranks; what a backward
    pass calls while it exchanges gradients is part of that exchange."""
    passes = [row for row in log.of(wire.EXCHANGE, thread=thread) if row.exchanged]
    inside = sums((row.t, 1) for row in passes)
    ends = sums((row.end, 1) for row in passes)
    calls = log.of(wire.COLLECTIVE, thread=thread)
    apart = [row for row in calls if inside.between(0, row.t) == ends.between(0, row.t)]
    return [(row.t, asleep(row)) for row in passes + apart]


def asleep(row: Row) -> int:
    """What of a row's time was neither on the CPU nor waiting for one, as far as is known."""
    return max(0, row.duration - max(0, row.cpu_ns) - max(0, row.run_queue_ns))


@dataclass(frozen=True)
class Gone:
    """Time that belongs to no step: evaluation, and what sampling took."""

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

    ``next`` counts arrivals and wait per iteration. The row that spans two iterators holds the wait at the
    end of the exhausted one, its last unsampled steps, and the time to build the next one.
    """
    points: list[ArrivalPoint] = []
    left_over = unseen = 0
    for epoch, one in enumerate(iterations):
        seen, waited = 0, 0
        for arrival in one.arrivals:
            row = arrival.next
            wait = row.wait_ns - waited + left_over
            points.append(ArrivalPoint(arrival, epoch, row.arrivals - seen + unseen, wait))
            seen, waited, left_over, unseen = row.arrivals, row.wait_ns, 0, 0
        if one.end is not None:
            left_over += max(0, one.end.wait_ns - waited)
            unseen += max(0, one.end.arrivals - seen)
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
    """Estimate a part in rows of several steps, of which one was sampled, from their total time."""
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
    first, last, steps = before.arrival, point.arrival, max(1, point.steps)
    begin, end = first.t, last.t
    absent = gone.evaluation.between(begin, end)
    wait = point.wait + others.between(begin, end)
    outside = last.clocks.cpu_ns - first.clocks.cpu_ns - first.next.cpu_ns - last.next.cpu_ns * (steps - 1)
    queues = first.clocks.run_queue_ns, last.clocks.run_queue_ns
    queued = wire.NOTHING not in queues
    system, faults = used_between(marks, first.next.t, last.next.t)

    def share(kind: Sums) -> float:
        """Of a part of the sampled step: the row's other steps are taken to be like it."""
        return kind.between(begin, end) * steps * S

    append(
        table,
        t=(end - origin) * S,
        steps=steps,
        epoch=point.epoch,
        wall_s=max(end - begin - absent - gone.looks.between(begin, end), wait, 1) * S,
        wait_s=wait * S,
        wait_cpu_s=last.next.cpu_ns * steps * S,
        cpu_s=max(0, outside) * S,
        process_cpu_s=max(0, last.clocks.process_cpu_ns - first.clocks.process_cpu_ns) * S,
        runq_s=max(0, queues[1] - queues[0]) * S if queued else None,
        wait_runq_s=max(0, last.clocks.next_run_queue_ns) * steps * S if queued else None,
        backward_s=share(marks.backward),
        optimizer_s=share(marks.optimizer),
        copy_s=share(marks.copy),
        exchange_s=share(marks.exchange),
        checkpoint_s=marks.checkpoint.between(begin, end) * S,
        logging_s=marks.logging.between(begin, end) * S,
        collect_s=marks.collect.between(begin, end) * S,
        system_s=system,
        minor_faults=faults,
        ready=last.clocks.ready if last.clocks.ready != wire.NOTHING else None,
        set_aside="" if absent < 0.5 * (end - begin) else "evaluation",
    )


def used_between(marks: Marks, begin: int, end: int) -> tuple[float | None, int | None]:
    """(system CPU seconds, minor faults) of the process between two samples; None where either lacks them."""
    first, last = marks.usage.get(begin), marks.usage.get(end)
    if first is None or last is None:
        return None, None
    return max(0, last.system_ns - first.system_ns) * S, max(0, last.minor_faults - first.minor_faults)


def thin(table: StepTable, at_most: int = ROWS_AT_MOST) -> StepTable:
    """Merge neighbours until the table is short enough; sums stay exact."""
    while len(table.t) > at_most:
        table = _halve(table)
    return table


LAST = ("t", "epoch", "ready")  # of two rows that are merged the later's, and of all other columns the sum
WHOLE = ("gap_s", "gap_cpu_s", "gap_runq_s", "late_s")  # not known of a row where half of it is not


def _halve(table: StepTable) -> StepTable:
    merged = StepTable()
    for column in fields(table):
        values, kept = getattr(table, column.name), getattr(merged, column.name)
        for place in range(0, len(values), 2):
            pair = values[place : place + 2]
            known = [value for value in pair if value is not None]
            if column.name == "set_aside":
                kept.append(max(pair))
            elif column.name in WHOLE and len(known) < len(pair):
                kept.append(None)
            else:
                kept.append(pair[-1] if column.name in LAST else sum(known) if known else None)
    return merged


def flag(table: StepTable, windows: list[tuple[float, float]], reason: str) -> None:
    """Set aside the steps during which a disturbing instrument ran."""
    for place, (end, wall) in enumerate(zip(table.t, table.wall_s, strict=True)):
        if any(begin < end and end - wall < stop for begin, stop in windows):
            table.set_aside[place] = table.set_aside[place] or reason
