"""Builds the loop that trains without a loader: a row from one sampled backward pass to the next.

Samples are some steps apart. The first step after a sample is measured in all its parts; of the steps until
the next sample only their total time and the thread's CPU, both exact. Their gaps are estimated from the
sampled ones and corrected by how much longer or shorter the steps took (a regression estimator): a stall of
the source between samples still counts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ..agent import wire
from ..model.code import Location
from ..model.loops import Epochs, Loop, LoopBody, StepTable
from .facts import LoopFact
from .loaders import Iteration, pieces
from .rows import ProcessLog, Row, S, append
from .steps import ESTIMATED, FIRST_ROWS, Marks, PartEstimate, estimate_rows, read_marks, thin, used_between
from .stretches import Sums


def read_outside(
    log: ProcessLog, iterations: list[Iteration], origin: int, body: LoopBody | None = None
) -> list[Loop]:
    """The loop that trains without a loader on its thread, if there is one."""
    passes = log.of(wire.STEP)
    if len(passes) < 2:
        return []
    thread = passes[0].thread
    marks = read_marks(log, thread)
    evaluating = (one for one in iterations if one.thread == thread)
    away = Sums((t, end - t) for one in evaluating for t, end in pieces(one, []))
    intervals = _intervals(log, thread, marks, away)
    table, unseen = StepTable(), _unseen(intervals)
    for one in intervals:
        _append(table, one, unseen, marks, origin)
    if not table.t:
        return []
    own = [
        wall - (gap or 0.0) - saved - logged for wall, gap, saved, logged
        in zip(table.wall_s, table.gap_s, table.checkpoint_s, table.logging_s, strict=True)
    ]  # fmt: skip
    estimate_rows(table, own, range(FIRST_ROWS, len(own)))
    table, steps = thin(table), passes[-1].steps - passes[0].steps
    wall_s = sum(table.wall_s)
    return [
        Loop("", log.pid, thread, "train", steps, wall_s, 0.0, Epochs(), table, backwards=steps, body=body)
    ]


def read_places(log: ProcessLog, kind: type[LoopFact]) -> list[Location]:
    """The call stacks in the facts of this kind, the innermost call first."""
    return [Location(*call) for one in log.facts_of(kind) for call in one.chain]


class Used(NamedTuple):
    """Nanoseconds of the loop's thread: on the CPU, and not."""

    on: int
    off: int


@dataclass(frozen=True)
class SamplingInterval:
    """From one sample to the next: ``whole`` is its time without evaluations and what has rows of its own;
    ``first`` the same of the first step, if its end was seen, ``gap`` the time in which that step got its
    batch, if a module was called, and ``queue`` the wait for a core in it; ``late`` is the time from its
    forward to its backward pass, ``queued`` the wait of all steps in queues."""

    before: Row
    row: Row
    wall: int
    whole: Used
    first: Used | None
    gap: Used | None
    queue: int
    late: int | None
    queued: int

    @property
    def steps(self) -> int:
        return self.row.steps - self.before.steps

    @property
    def rest(self) -> tuple[int, int]:
        """Of the steps after the first: on the CPU, and not."""
        on, off = self.first or self.whole
        return max(0, self.whole.on - on), max(0, self.whole.off - off)


def _intervals(log: ProcessLog, thread: int, marks: Marks, away: Sums) -> list[SamplingInterval]:
    def by_step(kind: int) -> dict[int, Row]:
        return {row.steps: row for row in log.of(kind, thread=thread)}

    forwards, ends, returns = (by_step(kind) for kind in (wire.FORWARD, wire.NEXT_STEP, wire.FORWARD_END))
    backwards = [row.t for row in log.of(wire.BACKWARD, thread=thread)]
    ours = {row.t: row.duration for row in log.of(wire.SAMPLING, thread=thread)}
    queued = {row.t: row.waited_ns for row in log.of(wire.QUEUE_WAIT, thread=thread)}

    def hooked(begin: int, end: int) -> int:
        return sum(kind.between(begin, end) for kind in (marks.checkpoint, marks.logging, marks.exchange))

    def used(before: Row, row: Row) -> Used:
        mine = ours.get(before.t, 0)
        apart = hooked(before.t, row.t) + away.between(before.t, row.t) + mine
        wall, cpu = max(1, row.t - before.t - apart), max(0, row.cpu_ns - before.cpu_ns - mine)
        return Used(min(cpu, wall), max(0, wall - cpu))

    def gap_of(row: Row) -> Used:
        apart = hooked(row.t, row.end) + marks.zeroed.between(row.t, row.end)
        left = max(0, row.duration - apart)
        return Used(min(row.cpu_ns, left), max(0, left - row.cpu_ns))

    found = []
    for before, row in pairwise(log.of(wire.STEP, thread=thread)):
        if row.steps > before.steps and row.t > before.t:
            end = row if row.steps == before.steps + 1 else ends.get(before.steps + 1)
            forward, returned = forwards.get(before.steps), returns.get(before.steps)
            later = backwards[bisect_left(backwards, returned.t) :][:1] if returned is not None else []
            found.append(
                SamplingInterval(
                    before,
                    row,
                    wall=max(1, row.t - before.t - away.between(before.t, row.t) - ours.get(before.t, 0)),
                    whole=used(before, row),
                    first=used(before, end) if end is not None else None,
                    gap=gap_of(forward) if forward is not None else None,
                    queue=forward.run_queue_ns if forward is not None else 0,
                    late=later[0] - returned.t if later and returned is not None else None,
                    queued=queued.get(row.t, 0),
                )
            )
    return found


def _unseen(intervals: list[SamplingInterval]) -> list[PartEstimate]:
    """Estimates the gaps of unsampled steps: on the CPU, and not; empty if no step was seen to its end."""
    ended = [one for one in intervals if one.first is not None]
    seen = [(one.gap, one.first) for one in ended if one.gap is not None and one.first is not None]
    if not seen:
        return []
    count = sum(one.steps - 1 for one in ended)
    return [
        PartEstimate.of(
            [gap[place] for gap, _ in seen],
            [first[place] for _, first in seen],
            sum(one.rest[place] for one in ended),
            count,
        )
        for place in range(2)
    ]


def _gaps(one: SamplingInterval, unseen: list[PartEstimate]) -> dict[str, float | None]:
    """The gaps of all steps in an interval; None without a module."""
    if one.gap is None:
        return {"gap_s": None, "gap_cpu_s": None, "gap_runq_s": None}
    on, off = (part * one.steps for part in one.gap)
    if one.first is not None and unseen:
        later = (line.estimate(rest, one.steps - 1) for line, rest in zip(unseen, one.rest, strict=True))
        on, off = (part + round(more) for part, more in zip(one.gap, later, strict=True))
    taken = max(0, min(on + off, one.wall))
    on = max(0, min(on, taken))
    queue = max(0, min(one.queue * one.steps, taken - on))
    return {"gap_s": taken * S, "gap_cpu_s": on * S, "gap_runq_s": queue * S}


def _append(
    table: StepTable, one: SamplingInterval, unseen: list[PartEstimate], marks: Marks, origin: int
) -> None:
    before, row, wall = one.before, one.row, one.wall
    begin, end = before.t, row.t

    def share(nanoseconds: int) -> float:
        """Seconds of a part: the steps between two samples are taken to be like the first of them."""
        return max(0, min(nanoseconds * one.steps, wall)) * S

    parts = {f"{name}_s": share(getattr(marks, name).between(begin, end)) for name in ESTIMATED}
    if marks.passes.between(begin, end):  # counted as backward passes, not again as optimizer
        parts["optimizer_s"] = 0.0
    append(
        table,
        t=(end - origin) * S,
        steps=one.steps,
        epoch=0,
        wait_s=0.0,
        wait_cpu_s=None,
        wait_runq_s=None,
        ready=None,
        set_aside="",
        wall_s=wall * S,
        late_s=None if one.late is None else share(one.late),
        queued_s=min(one.queued, wall) * S,
        cpu_s=max(0, min(row.cpu_ns - before.cpu_ns, wall)) * S,
        process_cpu_s=max(0, row.process_cpu_ns - before.process_cpu_ns) * S,
        runq_s=max(0, min(row.run_queue_ns - before.run_queue_ns, wall)) * S,
        **_gaps(one, unseen),
        **parts,
        **marks.exactly(begin, end),
        **used_between(marks, begin, end),
    )
