"""Builds the loops of a process, each with its table of steps.

A step is what lies between one batch in the training loop and the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from statistics import fmean
from typing import Any

from ..agent import wire
from ..model.loops import Epochs, Loop, LoopBody, StepTable
from .loaders import Iteration, SampledArrival, arrivals_while_training, one_after_another, pieces
from .rows import ProcessLog, Row, S, append
from .stretches import Sums, joined, shared

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


ESTIMATED = ("backward", "optimizer", "copy", "exchange")  # parts of which only sampled steps have rows


def estimate_rows(table: StepTable, own: list[float], counted: Iterable[int]) -> None:
    """Estimate parts in rows of several steps, of which one was sampled, from their total time (``own``).
    Where that does not predict a part, all steps of the row are taken to be like the sampled one."""
    places, steps = list(counted), table.steps
    single = [place for place in places if steps[place] == 1]
    several = [place for place in places if steps[place] > 1]
    if not single or not several:
        return
    rest, count = sum(own[place] for place in several), sum(steps[place] for place in several)
    for name in ESTIMATED:
        column = getattr(table, f"{name}_s")
        parts = [column[place] or 0.0 for place in single]
        line = PartEstimate.of(parts, [own[place] for place in single], rest, count)
        for place in several if line.slope else ():
            column[place] = line.estimate(max(0.0, own[place]), steps[place])


ROWS_AT_MOST = 4096
FIRST_ROWS = 10  # their steps are warm-up


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

    def exactly(self, begin: int, end: int) -> dict[str, float]:
        """Seconds in what has rows in every step."""
        names = ("checkpoint", "logging", "collect")
        return {f"{name}_s": getattr(self, name).between(begin, end) * S for name in names}


def read_marks(log: ProcessLog, thread: int) -> Marks:
    """Index the rows of one thread."""

    def of(kind: int, operation: str = "") -> Sums:
        rows = log.of(kind, thread=thread)
        which = wire.OPERATIONS.index(operation) if operation else None
        return Sums((row.t, row.duration) for row in rows if which is None or row.operation == which)

    passes, steps = log.of(wire.BACKWARD, thread=thread), log.of(wire.OPTIMIZER, thread=thread)
    whole, exchange = of(wire.BACKWARD), Sums(exchanges(log, thread))
    return Marks(
        backward=Sums((row.t, row.duration - exchange.between(row.t, row.end)) for row in passes),
        optimizer=Sums((row.t, row.duration - _within_closure(row, passes)) for row in steps),
        checkpoint=of(wire.OPERATION, "checkpoint"),
        logging=of(wire.OPERATION, "logging"),
        copy=of(wire.OPERATION, "copy"),
        collect=of(wire.COLLECTION),
        exchange=exchange,
        passes=Sums((row.t, int(whole.between(row.t, row.end) > 0)) for row in steps),
        zeroed=of(wire.ZERO_GRAD),
        usage={row.t: row for row in log.of(wire.USAGE, thread=thread)},
    )


def _within_closure(step: Row, passes: list[Row]) -> int:
    """Nanoseconds of an optimizer step until the last backward pass inside of it ended: those of a closure
    that runs the model, as Lightning's does."""
    inside = passes[bisect_left(passes, (step.t,)) : bisect_left(passes, (step.end,))]
    return min(step.duration, max((row.end for row in inside), default=step.t) - step.t)


def exchanges(log: ProcessLog, thread: int) -> list[tuple[int, int]]:
    """(instant, nanoseconds asleep) of everything in which a thread waited for other ranks; what a backward
    pass calls while it exchanges gradients is part of that exchange."""
    passes = [row for row in log.of(wire.EXCHANGE, thread=thread) if row.exchanged]
    inside = Sums((row.t, 1) for row in passes)
    ends = Sums((row.end, 1) for row in passes)
    calls = log.of(wire.COLLECTIVE, thread=thread)
    apart = [row for row in calls if inside.between(0, row.t) == ends.between(0, row.t)]
    return [(row.t, asleep(row)) for row in passes + apart]


def asleep(row: Row) -> int:
    """What of a row's time was neither on the CPU nor waiting for one, as far as is known."""
    return max(0, row.duration - max(0, row.cpu_ns) - max(0, row.run_queue_ns))


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


def tabulate(
    points: list[ArrivalPoint], marks: Marks, away: Sums, looks: Sums, others: Sums, origin: int
) -> StepTable:
    """One row per point after the first. ``away`` is evaluation, ``looks`` what sampling took: both are in no
    step. ``others`` are the waits for further training loaders of the same loop."""
    table = StepTable()
    for before, point in pairwise(points):
        first, last, steps = before.arrival, point.arrival, max(1, point.steps)
        begin, end = first.t, last.t
        absent, wait = away.between(begin, end), point.wait + others.between(begin, end)
        in_next = first.next.cpu_ns + last.next.cpu_ns * (steps - 1)
        queues = first.clocks.run_queue_ns, last.clocks.run_queue_ns
        queued = wire.NOTHING not in queues
        # Of a part of the sampled step: the row's other steps are taken to be like it.
        parts = {f"{name}_s": getattr(marks, name).between(begin, end) * steps * S for name in ESTIMATED}
        append(
            table,
            t=(end - origin) * S,
            steps=steps,
            epoch=point.epoch,
            wall_s=max(end - begin - absent - looks.between(begin, end), wait, 1) * S,
            wait_s=wait * S,
            wait_cpu_s=last.next.cpu_ns * steps * S,
            cpu_s=max(0, last.clocks.cpu_ns - first.clocks.cpu_ns - in_next) * S,
            process_cpu_s=max(0, last.clocks.process_cpu_ns - first.clocks.process_cpu_ns) * S,
            runq_s=max(0, queues[1] - queues[0]) * S if queued else None,
            wait_runq_s=max(0, last.clocks.next_run_queue_ns) * steps * S if queued else None,
            ready=last.clocks.ready if last.clocks.ready != wire.NOTHING else None,
            set_aside="" if absent < 0.5 * (end - begin) else "evaluation",
            **parts,
            **marks.exactly(begin, end),
            **used_between(marks, first.next.t, last.next.t),
        )
    own = [
        wall - wait - saved - logged for wall, wait, saved, logged
        in zip(table.wall_s, table.wait_s, table.checkpoint_s, table.logging_s, strict=True)
    ]  # fmt: skip
    counted = [place for place, aside in enumerate(table.set_aside) if not aside and place >= FIRST_ROWS]
    estimate_rows(table, own, counted)
    return thin(table)


def used_between(marks: Marks, begin: int, end: int) -> dict[str, float | None]:
    """What the process used of the kernel between two samples; None where either lacks it."""
    first, last = marks.usage.get(begin), marks.usage.get(end)
    if first is None or last is None:
        return {"system_s": None, "minor_faults": None}
    faults = max(0, last.minor_faults - first.minor_faults)
    return {"system_s": max(0, last.system_ns - first.system_ns) * S, "minor_faults": faults}


LAST = ("t", "epoch", "ready")  # of two rows that are merged the later's, and of all other columns the sum
WHOLE = ("gap_s", "gap_cpu_s", "gap_runq_s", "late_s")  # not known of a row where half of it is not


def thin(table: StepTable, at_most: int = ROWS_AT_MOST) -> StepTable:
    """Merge neighbours until the table is short enough; sums stay exact."""
    while len(table.t) > at_most:
        table = StepTable(**{name: _halved(name, values) for name, values in vars(table).items()})
    return table


def _halved(name: str, values: list[Any]) -> list[Any]:
    pairs = [values[place : place + 2] for place in range(0, len(values), 2)]
    if name == "set_aside":
        return [max(pair) for pair in pairs]
    if name in LAST:
        return [pair[-1] for pair in pairs]
    known = [[value for value in pair if value is not None] for pair in pairs]
    short = [len(some) < (len(pair) if name in WHOLE else 1) for some, pair in zip(known, pairs, strict=True)]
    return [None if lacking else sum(some) for some, lacking in zip(known, short, strict=True)]


def flag(table: StepTable, windows: list[tuple[float, float]], reason: str) -> None:
    """Set aside the steps during which a disturbing instrument ran."""
    for place, (end, wall) in enumerate(zip(table.t, table.wall_s, strict=True)):
        if any(begin < end and end - wall < stop for begin, stop in windows):
            table.set_aside[place] = table.set_aside[place] or reason


EPOCHS_AT_MOST = 256
LOOPS_AT_MOST = 64


def read_loops(
    log: ProcessLog, iterations: list[Iteration], origin: int, body: LoopBody | None = None
) -> list[Loop]:
    """One loop per (thread, loader, role); those of most batches, since a script may build thousands."""
    groups: dict[tuple[int, str, str], list[Iteration]] = {}
    for one in iterations:
        groups.setdefault((one.thread, one.loader, one.role), []).append(one)
    most = sorted(groups.values(), key=lambda group: -sum(one.batches for one in group))[:LOOPS_AT_MOST]
    loops = [_loop(log, one_after_another(group), iterations, origin) for group in most]
    return [replace(loop, body=body) if loop.role == "train" else loop for loop in loops]


def _loop(log: ProcessLog, group: list[Iteration], everything: list[Iteration], origin: int) -> Loop:
    first = group[0]
    trains = first.role == "train"
    away = evaluations(first, everything) if trains else _between(group, everything)
    others = waits_for_others(group, everything) if trains else Sums()
    mine = {arrival.t for one in group for arrival in one.arrivals}
    looks = Sums((row.t, row.duration) for row in log.of(wire.SAMPLING) if row.t in mine)
    table = tabulate(line_up(group), read_marks(log, first.thread), away, looks, others, origin)
    epochs = Epochs()
    for one in group[:EPOCHS_AT_MOST]:
        append(
            epochs, t=(one.begin - origin) * S, build_s=one.build * S, batches=one.batches,
            first_wait_s=one.arrivals[0].next.duration * S if one.arrivals else 0.0,
        )  # fmt: skip
    return Loop(
        loader=first.loader,
        pid=log.pid,
        thread=first.thread,
        role=first.role,
        steps=sum(one.batches for one in group),
        wall_s=sum(table.wall_s),
        wait_s=sum(table.wait_s),
        epochs=epochs,
        table=table,
        backwards=sum(one.backwards for one in group),
        optimizer_steps=sum(one.optimizer_steps for one in group),
        forwards=sum(one.grad is not None for one in group),
        recorded_forwards=sum(one.grad is True for one in group),
    )


def evaluations(first: Iteration, everything: list[Iteration]) -> Sums:
    """The time that evaluation took on this loop's thread, in pieces during which no training batch came."""
    trained = arrivals_while_training(everything, first.thread)
    same = (one for one in everything if one.thread == first.thread and one.role == "evaluation")
    return Sums((t, end - t) for one in same for t, end in pieces(one, trained))


def _between(group: list[Iteration], everything: list[Iteration]) -> Sums:
    """The time in which an evaluation's thread did not evaluate: from one pass to the next, and while
    training batches came."""
    trained = arrivals_while_training(everything, group[0].thread)
    apart = [(one.finish, later.begin) for one, later in pairwise(group) if one.finish < later.begin]
    busy = [piece for one in group for piece in pieces(one, trained, training=True)]
    return Sums((t, end - t) for t, end in apart + busy)


def waits_for_others(group: list[Iteration], everything: list[Iteration]) -> Sums:
    """Waits for other training passes that were open at the same time as one of this loop's."""
    numbers = {one.number for one in group}
    mine = joined((one.begin, one.finish) for one in group)
    waits = []
    for other in everything:
        same = other.thread == group[0].thread and other.role == "train" and other.number not in numbers
        if same and shared(mine, other.begin, other.finish):
            before = 0
            for arrival in other.arrivals:
                waits.append((arrival.next.t, arrival.next.wait_ns - before))
                before = arrival.next.wait_ns
    return Sums(waits)
