"""Builds the loops of a process: what they consumed, how long they waited."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from ..agent import wire
from ..model.loops import Epochs, Loop, LoopBody
from .loaders import Iteration, arrivals_while_training, one_after_another, pieces
from .rows import ProcessLog, S, append
from .steps import line_up, read_marks, tabulate
from .stretches import Sums, joined, shared

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
