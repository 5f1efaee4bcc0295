"""Builds the loops of a process: what they consumed, how long they waited."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import accumulate, pairwise

from ..agent import wire
from ..model.loops import Epochs, Loop, LoopBody
from .loaders import Iteration, one_after_another
from .rows import ProcessLog, S, append
from .steps import Gone, Sums, line_up, read_marks, sums, tabulate

EPOCHS_AT_MOST = 256


def read_loops(
    log: ProcessLog, iterations: list[Iteration], origin: int, body: LoopBody | None = None
) -> list[Loop]:
    """One loop per (thread, loader, role)."""
    groups: dict[tuple[int, str, str], list[Iteration]] = {}
    for one in iterations:
        groups.setdefault((one.thread, one.loader, one.role), []).append(one)
    loops = [_loop(log, one_after_another(group), iterations, origin) for group in groups.values()]
    return [replace(loop, body=body) if loop.role == "train" else loop for loop in loops]


def _loop(log: ProcessLog, group: list[Iteration], everything: list[Iteration], origin: int) -> Loop:
    first = group[0]
    points = line_up(group)
    away = evaluations(first, everything) if first.role == "train" else _between(group, everything)
    others = waits_for_others(group, everything) if first.role == "train" else sums([])
    table = tabulate(points, read_marks(log, first.thread), Gone(away, _looks(log, group)), others, origin)
    total = sum(one.batches for one in group)
    return Loop(
        loader=first.loader,
        pid=log.pid,
        thread=first.thread,
        role=first.role,
        steps=total,
        wall_s=sum(table.wall_s),
        wait_s=sum(table.wait_s),
        epochs=_epochs(group, origin),
        table=table,
        backwards=sum(one.backwards for one in group),
        optimizer_steps=sum(one.optimizer_steps for one in group),
        forwards=sum(one.grad is not None for one in group),
        recorded_forwards=sum(one.grad is True for one in group),
    )


def _looks(log: ProcessLog, group: list[Iteration]) -> Sums:
    """What sampling took of the loop's time, by the arrival of the sampled batch."""
    mine = {arrival.t for one in group for arrival in one.arrivals}
    return sums((row.t, row.duration) for row in log.of(wire.SAMPLING) if row.t in mine)


def evaluations(first: Iteration, everything: list[Iteration]) -> Sums:
    """The time that evaluation took on this loop's thread, in pieces during which no training batch came."""
    same = [one for one in everything if one.thread == first.thread and one.role == "evaluation"]
    trained = _trained(first, everything)
    return sums(
        (t, end - t) for t, end in pieces(same) if bisect_left(trained, t) == bisect_left(trained, end)
    )


def _between(group: list[Iteration], everything: list[Iteration]) -> Sums:
    """The time in which an evaluation's thread did not evaluate: from one pass to the next, and while
    training batches came."""
    trained = _trained(group[0], everything)
    gaps = [(one.finish, later.begin) for one, later in pairwise(group) if one.finish < later.begin]
    busy = [
        piece for piece in pieces(group) if bisect_left(trained, piece[0]) < bisect_left(trained, piece[1])
    ]
    return sums((t, end - t) for t, end in gaps + busy)


def _trained(first: Iteration, everything: list[Iteration]) -> list[int]:
    """When training batches came to a thread."""
    same = (one for one in everything if one.thread == first.thread and one.role == "train")
    return sorted(arrival.t for one in same for arrival in one.arrivals)


def pieces(iterations: list[Iteration]) -> list[tuple[int, int]]:
    """From one event of a pass to the next: its begin, its batches, its end."""
    times = [[one.begin, *(arrival.t for arrival in one.arrivals), one.finish] for one in iterations]
    return [(t, end) for one in times for t, end in pairwise(one) if t < end]


def waits_for_others(group: list[Iteration], everything: list[Iteration]) -> Sums:
    """Waits for other training passes that were open at the same time as one of this loop's."""
    numbers = {one.number for one in group}
    mine = sorted((one.begin, one.finish) for one in group)
    begins = [begin for begin, _ in mine]
    latest = list(accumulate((finish for _, finish in mine), max))
    waits = []
    for other in everything:
        same = other.thread == group[0].thread and other.role == "train" and other.number not in numbers
        earlier = bisect_left(begins, other.finish)
        if same and earlier and other.begin < latest[earlier - 1]:
            before = 0
            for arrival in other.arrivals:
                waits.append((arrival.next.t, arrival.next.wait_ns - before))
                before = arrival.next.wait_ns
    return sums(waits)


def _epochs(group: list[Iteration], origin: int) -> Epochs:
    epochs = Epochs()
    for one in group[:EPOCHS_AT_MOST]:
        append(
            epochs, t=(one.begin - origin) * S, build_s=one.build * S, batches=one.batches,
            first_wait_s=one.arrivals[0].next.duration * S if one.arrivals else 0.0,
        )  # fmt: skip
    return epochs
