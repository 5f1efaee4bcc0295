"""Builds the loop that trains without a loader: a row from one looked-at backward pass to the next.

Looks are some steps apart. Of the first step behind a look everything is known; of those behind it together
their time and the thread's CPU, both exact. Their gaps are estimated from the looked-at ones and corrected by
what the steps took more or less than these (a regression estimator): a stall of the source that no look met
still counts.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

from ..agent import wire
from ..model.code import Location
from ..model.loops import LoopBody, Outside
from .iterators import Iteration
from .loop_body import read_body
from .loops import pieces
from .rows import ProcessLog, Row
from .steps import (
    FIRST_ROWS,
    ROWS_AT_MOST,
    Marks,
    PartEstimate,
    S,
    Sums,
    estimate_rows,
    read_marks,
    sums,
    used_between,
)


def read_outside(
    log: ProcessLog, iterations: list[Iteration], origin: int, body: LoopBody | None = None
) -> list[Outside]:
    """The loop that trains without a loader on its thread, if there is one."""
    passes = log.of(wire.PASS)
    if len(passes) < 2:
        return []
    thread = passes[0].thread
    marks, away = read_marks(log, thread), _evaluated(thread, iterations)
    stretches = list(_stretches(log, thread, marks, away))
    result = Outside(log.pid, thread, passes[-1].a - passes[0].a, body=body)
    unseen = Unseen.of(stretches)
    for one in stretches:
        _append(result, one, unseen, marks, origin)
    own = [
        wall - (gap or 0.0) - (saved or 0.0) - (logged or 0.0) for wall, gap, saved, logged
        in zip(result.wall_s, result.gap_s, result.checkpoint_s, result.logging_s, strict=True)
    ]  # fmt: skip
    for column in (result.backward_s, result.optimizer_s, result.copy_s, result.exchange_s):
        estimate_rows(column, own, result.steps, range(FIRST_ROWS, len(own)))
    while len(result.t) > ROWS_AT_MOST:
        result = _halve(result)
    return [result] if result.t else []


def find_body(log: ProcessLog, cwd: str) -> LoopBody | None:
    """The innermost loop around the backward pass, where its source could be read."""
    return read_body(places_told(log, "loop"), cwd)


def places_told(log: ProcessLog, fact: str) -> list[Location]:
    """The lines in which the training stood, the innermost first."""
    chains = [one.get("chain") for one in log.facts if one.get("fact") == fact]
    calls = [call for chain in chains if isinstance(chain, list) for call in chain]
    return [Location(str(file), int(line), str(name)) for file, line, name in calls]


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
class SamplingInterval:
    """From one look to the next: ``whole`` is without evaluations and what has rows of its own, ``first`` the
    same of the first step, where its end was seen; and the ``gap`` of that, where it has one; ``late`` is the
    time from its forward pass to its backward pass, ``queued`` what all its steps waited in queues."""

    before: Row
    row: Row
    wall: int
    whole: Used
    first: Used | None
    gap: Row | None
    late: int | None
    queued: int

    @property
    def steps(self) -> int:
        return self.row.a - self.before.a

    @property
    def seen(self) -> tuple[Used, Used] | None:
        """The first step's gap and all of it."""
        if self.first is None or self.gap is None:
            return None
        return Used(self.gap.b, max(0, self.gap.duration - self.gap.b)), self.first


def _stretches(log: ProcessLog, thread: int, marks: Marks, away: Sums) -> list[SamplingInterval]:
    passes = [row for row in log.of(wire.PASS) if row.thread == thread]
    gaps = {row.a: _without_hooked(row, marks) for row in log.of(wire.FORWARD) if row.thread == thread}
    ends = {row.a: row for row in log.of(wire.AFTER_LOOK) if row.thread == thread}
    returns = {row.a: row for row in log.of(wire.FORWARDED) if row.thread == thread}
    backwards = sorted(row.t for row in log.of(wire.BACKWARD) if row.thread == thread)
    looks = {row.t: row.duration for row in log.by_kind.get(wire.LOOK, ()) if row.thread == thread}
    queued = {row.t: row.duration for row in log.of(wire.QUEUED) if row.thread == thread}

    def used(before: Row, row: Row) -> Used:
        ours = looks.get(before.t, 0)
        apart = _hooked(marks, before.t, row.t) + away.between(before.t, row.t) + ours
        wall, cpu = max(1, row.t - before.t - apart), max(0, row.b - before.b - ours)
        return Used(min(cpu, wall), max(0, wall - cpu))

    found = []
    for before, row in pairwise(passes):
        if row.a > before.a and row.t > before.t:
            end = row if row.a == before.a + 1 else ends.get(before.a + 1)
            apart = away.between(before.t, row.t) + looks.get(before.t, 0)
            wall = max(1, row.t - before.t - apart)
            first = used(before, end) if end is not None else None
            late = _late(returns.get(before.a), backwards)
            whole, gap = used(before, row), gaps.get(before.a)
            found.append(SamplingInterval(before, row, wall, whole, first, gap, late, queued.get(row.t, 0)))
    return found


def _late(returned: Row | None, backwards: list[int]) -> int | None:
    """From a module's return to the next backward pass."""
    place = bisect_left(backwards, returned.t) if returned is not None else len(backwards)
    return backwards[place] - returned.t if returned is not None and place < len(backwards) else None


def _without_hooked(gap: Row, marks: Marks) -> Row:
    """The gap without what has rows of its own."""
    end = gap.t + gap.duration
    hooked = _hooked(marks, gap.t, end) + marks.zeroed.between(gap.t, end)
    left = max(0, gap.duration - hooked)
    return gap._replace(duration=left, b=min(gap.b, left)) if hooked else gap


def _hooked(marks: Marks, begin: int, end: int) -> int:
    return sum(kind.between(begin, end) for kind in (marks.checkpoint, marks.logging, marks.exchange))


@dataclass(frozen=True)
class Unseen:
    """The gaps of the steps that were not looked at."""

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


def _gap(one: SamplingInterval, unseen: Unseen | None) -> tuple[int, int, int] | None:
    """Nanoseconds of gap in a stretch, of these on the CPU, and in its run queue; None without a module."""
    gap, steps = one.gap, one.steps
    if gap is None:
        return None
    taken, on = gap.duration * steps, gap.b * steps
    if one.first is not None and unseen is not None:
        rest = one.whole - one.first
        on = gap.b + round(unseen.on.estimate(rest.on, steps - 1))
        taken = on + max(0, gap.duration - gap.b) + round(unseen.off.estimate(rest.off, steps - 1))
    taken = max(0, min(taken, one.wall))
    on = max(0, min(on, taken))
    return taken, on, max(0, min(gap.c * steps, taken - on))


def _append(result: Outside, one: SamplingInterval, unseen: Unseen | None, marks: Marks, origin: int) -> None:
    before, row, steps, wall = one.before, one.row, one.steps, one.wall
    begin, end = before.t, row.t
    gap, gap_cpu, gap_runq = _gap(one, unseen) or (None, None, None)

    def share(nanoseconds: int) -> float:
        """Of parts: the steps between two looks are taken to be like the first of them."""
        return max(0, min(nanoseconds * steps, wall)) * S

    closures = marks.passes.between(begin, end)  # an optimizer that calls its closure is no part beside it
    result.t.append((end - origin) * S)
    result.steps.append(steps)
    result.wall_s.append(wall * S)
    result.gap_s.append(None if gap is None else gap * S)
    result.gap_cpu_s.append(None if gap_cpu is None else gap_cpu * S)
    result.gap_runq_s.append(None if gap_runq is None else gap_runq * S)
    result.late_s.append(None if one.late is None else share(one.late))
    result.queued_s.append(min(one.queued, wall) * S)
    result.cpu_s.append(max(0, min(row.b - before.b, wall)) * S)
    result.process_cpu_s.append(max(0, row.c - before.c) * S)
    result.runq_s.append(max(0, min(row.d - before.d, wall)) * S)
    result.backward_s.append(share(marks.backward.between(begin, end)))
    result.optimizer_s.append(0.0 if closures else share(marks.optimizer.between(begin, end)))
    result.copy_s.append(share(marks.copy.between(begin, end)))
    result.exchange_s.append(share(marks.exchange.between(begin, end)))
    result.checkpoint_s.append(marks.checkpoint.between(begin, end) * S)
    result.logging_s.append(marks.logging.between(begin, end) * S)
    result.collect_s.append(marks.collect.between(begin, end) * S)
    system, faults = used_between(marks, begin, end)
    result.system_s.append(system)
    result.minor_faults.append(faults)


SUMMED = (
    "steps wall_s gap_s gap_cpu_s gap_runq_s late_s queued_s cpu_s process_cpu_s runq_s backward_s "
    "optimizer_s copy_s exchange_s checkpoint_s logging_s collect_s system_s minor_faults"
).split()


def _halve(outside: Outside) -> Outside:
    """Neighbours merged; sums stay exact, as far as both are known."""
    count = len(outside.t)
    merged = Outside(outside.pid, outside.thread, outside.total, body=outside.body)
    merged.t.extend(outside.t[1::2] + outside.t[count // 2 * 2 :])
    for name in SUMMED:
        column = getattr(outside, name)
        pairs = [column[place : place + 2] for place in range(0, count, 2)]
        getattr(merged, name).extend(None if None in pair else sum(pair) for pair in pairs)
    return merged
