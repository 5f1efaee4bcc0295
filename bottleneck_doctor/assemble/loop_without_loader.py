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

from ..agent import wire
from ..model.code import Location
from ..model.loops import Epochs, Loop, LoopBody, StepTable
from ..source.loop_body import read_body
from .facts import LoopFact
from .loaders import Iteration
from .loops import pieces
from .rows import ProcessLog, Row, S, append
from .steps import FIRST_ROWS, Marks, PartEstimate, Sums, estimate_rows, read_marks, sums, thin, used_between


def read_outside(
    log: ProcessLog, iterations: list[Iteration], origin: int, body: LoopBody | None = None
) -> list[Loop]:
    """The loop that trains without a loader on its thread, if there is one."""
    passes = log.of(wire.STEP)
    if len(passes) < 2:
        return []
    thread = passes[0].thread
    marks, away = read_marks(log, thread), _evaluated(thread, iterations)
    stretches = list(_stretches(log, thread, marks, away))
    table, unseen = StepTable(), Unseen.of(stretches)
    for one in stretches:
        _append(table, one, unseen, marks, origin)
    if not table.t:
        return []
    own = [
        wall - (gap or 0.0) - saved - logged for wall, gap, saved, logged
        in zip(table.wall_s, table.gap_s, table.checkpoint_s, table.logging_s, strict=True)
    ]  # fmt: skip
    for column in (table.backward_s, table.optimizer_s, table.copy_s, table.exchange_s):
        estimate_rows(column, own, table.steps, range(FIRST_ROWS, len(own)))
    table, steps = thin(table), passes[-1].steps - passes[0].steps
    wall_s = sum(table.wall_s)
    return [
        Loop("", log.pid, thread, "train", steps, wall_s, 0.0, Epochs(), table, backwards=steps, body=body)
    ]


def find_body(log: ProcessLog, cwd: str) -> LoopBody | None:
    """The innermost loop around the backward pass, where its source could be read."""
    return read_body(places_told(log, LoopFact), cwd)


def places_told(log: ProcessLog, kind: type[LoopFact]) -> list[Location]:
    """The call stacks in the facts of this kind, the innermost call first."""
    return [Location(*call) for one in log.told(kind) for call in one.chain]


def _evaluated(thread: int, iterations: list[Iteration]) -> Sums:
    """The time in which a thread without a training loader went over a loader: its evaluations."""
    same = [one for one in iterations if one.thread == thread]
    return sums((t, end - t) for t, end in pieces(same))


@dataclass(frozen=True)
class Used:
    """Nanoseconds of the loop's thread: on the CPU, and not."""

    on: int
    off: int

    def __sub__(self, other: Used) -> Used:
        return Used(max(0, self.on - other.on), max(0, self.off - other.off))


@dataclass(frozen=True)
class LoopGap:
    """Nanoseconds in which a step got its batch, of these on the CPU, and waiting for one."""

    taken: int
    cpu: int
    queue: int


@dataclass(frozen=True)
class SamplingInterval:
    """From one sample to the next: ``whole`` is its time without evaluations and what has rows of its own;
    ``first`` the same of the first step, if its end was seen, ``gap`` the gap of that step, if it has one;
    ``late`` is the time from its forward to its backward pass, ``queued`` the wait of all steps in queues."""

    before: Row
    row: Row
    wall: int
    whole: Used
    first: Used | None
    gap: LoopGap | None
    late: int | None
    queued: int

    @property
    def steps(self) -> int:
        return self.row.steps - self.before.steps

    @property
    def seen(self) -> tuple[Used, Used] | None:
        """The first step's gap and all of it."""
        if self.first is None or self.gap is None:
            return None
        return Used(self.gap.cpu, max(0, self.gap.taken - self.gap.cpu)), self.first


def _stretches(log: ProcessLog, thread: int, marks: Marks, away: Sums) -> list[SamplingInterval]:
    def by_step(kind: int) -> dict[int, Row]:
        return {row.steps: row for row in log.of(kind, thread=thread)}

    gaps = {steps: _gap_of(row, marks) for steps, row in by_step(wire.FORWARD).items()}
    ends, returns = by_step(wire.NEXT_STEP), by_step(wire.FORWARD_END)
    backwards = [row.t for row in log.of(wire.BACKWARD, thread=thread)]
    ours = {row.t: row.duration for row in log.of(wire.SAMPLING, thread=thread)}
    queued = {row.t: row.waited_ns for row in log.of(wire.QUEUE_WAIT, thread=thread)}

    def used(before: Row, row: Row) -> Used:
        mine = ours.get(before.t, 0)
        apart = _hooked(marks, before.t, row.t) + away.between(before.t, row.t) + mine
        wall, cpu = max(1, row.t - before.t - apart), max(0, row.cpu_ns - before.cpu_ns - mine)
        return Used(min(cpu, wall), max(0, wall - cpu))

    found = []
    for before, row in pairwise(log.of(wire.STEP, thread=thread)):
        if row.steps > before.steps and row.t > before.t:
            end = row if row.steps == before.steps + 1 else ends.get(before.steps + 1)
            apart = away.between(before.t, row.t) + ours.get(before.t, 0)
            wall = max(1, row.t - before.t - apart)
            first = used(before, end) if end is not None else None
            late = _late(returns.get(before.steps), backwards)
            whole, gap = used(before, row), gaps.get(before.steps)
            found.append(SamplingInterval(before, row, wall, whole, first, gap, late, queued.get(row.t, 0)))
    return found


def _late(returned: Row | None, backwards: list[int]) -> int | None:
    """From a module's return to the next backward pass."""
    place = bisect_left(backwards, returned.t) if returned is not None else len(backwards)
    return backwards[place] - returned.t if returned is not None and place < len(backwards) else None


def _gap_of(row: Row, marks: Marks) -> LoopGap:
    """A FORWARD row without what has rows of its own."""
    hooked = _hooked(marks, row.t, row.end) + marks.zeroed.between(row.t, row.end)
    left = max(0, row.duration - hooked)
    return LoopGap(left, min(row.cpu_ns, left) if hooked else row.cpu_ns, row.run_queue_ns)


def _hooked(marks: Marks, begin: int, end: int) -> int:
    return sum(kind.between(begin, end) for kind in (marks.checkpoint, marks.logging, marks.exchange))


@dataclass(frozen=True)
class Unseen:
    """Estimates the gaps of unsampled steps."""

    on: PartEstimate
    off: PartEstimate

    @classmethod
    def of(cls, stretches: list[SamplingInterval]) -> Unseen | None:
        """None where no step was seen to its end."""
        seen = [one.seen for one in stretches if one.seen is not None]
        if not seen:
            return None
        rests = [(one.whole - one.first, one.steps - 1) for one in stretches if one.first is not None]
        count = sum(steps for _, steps in rests)

        def line(name: str) -> PartEstimate:
            gaps, steps = ([getattr(used[place], name) for used in seen] for place in (0, 1))
            return PartEstimate.of(gaps, steps, sum(getattr(rest, name) for rest, _ in rests), count)

        return cls(line("on"), line("off"))


def _gap(one: SamplingInterval, unseen: Unseen | None) -> LoopGap | None:
    """The gaps of all steps in a stretch; None without a module."""
    gap, steps = one.gap, one.steps
    if gap is None:
        return None
    taken, on = gap.taken * steps, gap.cpu * steps
    if one.first is not None and unseen is not None:
        rest = one.whole - one.first
        on = gap.cpu + round(unseen.on.estimate(rest.on, steps - 1))
        taken = on + max(0, gap.taken - gap.cpu) + round(unseen.off.estimate(rest.off, steps - 1))
    taken = max(0, min(taken, one.wall))
    on = max(0, min(on, taken))
    return LoopGap(taken, on, max(0, min(gap.queue * steps, taken - on)))


def _append(
    table: StepTable, one: SamplingInterval, unseen: Unseen | None, marks: Marks, origin: int
) -> None:
    before, row, wall = one.before, one.row, one.wall
    begin, end = before.t, row.t
    gap = _gap(one, unseen)

    def share(nanoseconds: int) -> float:
        """Seconds of a part: the steps between two samples are taken to be like the first of them."""
        return max(0, min(nanoseconds * one.steps, wall)) * S

    closures = marks.passes.between(begin, end)  # counted as backward passes, not again as optimizer
    system, faults = used_between(marks, begin, end)
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
        gap_s=None if gap is None else gap.taken * S,
        gap_cpu_s=None if gap is None else gap.cpu * S,
        gap_runq_s=None if gap is None else gap.queue * S,
        late_s=None if one.late is None else share(one.late),
        queued_s=min(one.queued, wall) * S,
        cpu_s=max(0, min(row.cpu_ns - before.cpu_ns, wall)) * S,
        process_cpu_s=max(0, row.process_cpu_ns - before.process_cpu_ns) * S,
        runq_s=max(0, min(row.run_queue_ns - before.run_queue_ns, wall)) * S,
        backward_s=share(marks.backward.between(begin, end)),
        optimizer_s=0.0 if closures else share(marks.optimizer.between(begin, end)),
        copy_s=share(marks.copy.between(begin, end)),
        exchange_s=share(marks.exchange.between(begin, end)),
        checkpoint_s=marks.checkpoint.between(begin, end) * S,
        logging_s=marks.logging.between(begin, end) * S,
        collect_s=marks.collect.between(begin, end) * S,
        system_s=system,
        minor_faults=faults,
    )
