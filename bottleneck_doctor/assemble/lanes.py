"""Keeps some steps of each training loop as they were, so that who waits for whom can be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from ..agent import wire
from ..model.lanes import Excerpt, Fetches, Spans
from ..model.profile import Loader, Loop, Window
from .arrivals import Iteration
from .deals import bases, batch_of, read_deals
from .excerpts import STEPS_AIMED_AT, STEPS_AT_LEAST, Stretch, choose
from .fetches import Crew, books_of
from .loops import evaluations, waits_for_others
from .rows import Diary, Row
from .side_by_side import one_after_another
from .steps import Point, S, Sums, line_up

LOOPS_AT_MOST = 8  # the longest training loops of a run: ranks beyond that are not drawn
SPANS_AT_MOST, FETCHES_AT_MOST = 800, 1200  # of all loops together
PART = 2  # of these at most for one loop, even if it is alone

HOST_WORK = wire.OPERATIONS[:3]  # what else is forced to the disk is the loop's own time

Found = tuple[int, int, str, int | None]  # begin, duration, what, batch: of the loop's thread
Fetched = tuple[Row, Row, Row, Crew]
KINDS = {
    wire.BACKWARD: "backward", wire.OPTIMIZER: "optimizer", wire.COLLECTION: "collect",
    wire.COLLECTIVE: "exchange", wire.DEVICE_COPY: "copy", wire.DEVICE_WAIT: "sync",
}  # fmt: skip


def read_excerpts(
    loops: list[Loop],
    loaders: list[Loader],
    crews: dict[str, list[Crew]],
    diaries: list[Diary],
    iterations: dict[int, list[Iteration]],
    windows: list[Window],
    origin: int,
) -> list[Excerpt]:
    """One excerpt of each of the longest training loops, where some of its steps were seen densely enough."""
    training = sorted((one for one in loops if one.role == "train"), key=lambda one: -one.wall_s)
    training = training[:LOOPS_AT_MOST]
    by_pid = {diary.pid: diary for diary in diaries}
    room = max(PART, len(training))
    found = []
    for loop in training:
        loader = next((one for one in loaders if one.key == loop.loader), None)
        reader = _Reader(loop, loader, by_pid[loop.pid], iterations[loop.pid], crews.get(loop.loader, []))
        found.append(reader.read(windows, origin, SPANS_AT_MOST // room, FETCHES_AT_MOST // room))
    return [one for one in found if one is not None]


class _Reader:
    """The rows about one loop."""

    def __init__(
        self, loop: Loop, loader: Loader | None, diary: Diary, everything: list[Iteration], crew: list[Crew]
    ) -> None:
        self.loop, self.loader, self.diary, self.everything = loop, loader, diary, everything
        self.group = one_after_another(
            [
                one
                for one in everything
                if (one.thread, one.loader, one.role) == (loop.thread, loop.loader, loop.role)
            ]
        )
        self.crew = [one for one in crew if one.thing is None or one.diary.pid == loop.pid]
        self.points = _with_all_waits(line_up(self.group), waits_for_others(self.group, everything))
        self.base = bases(self.group)
        self.deals = read_deals(diary, self.group, loader, _made(self.crew))

    def read(self, windows: list[Window], origin: int, spans: int, fetches: int) -> Excerpt | None:
        """Some typical steps, as many as there is room for; None where none were seen well enough."""
        workers, ahead = (
            (self.loader.num_workers, self.loader.prefetch_factor or 2) if self.loader else (0, 0)
        )
        disturbed = [(int(one.start_s / S) + origin, int(one.end_s / S) + origin) for one in windows]
        away = evaluations(self.group[0], self.everything)
        aimed_at = STEPS_AIMED_AT
        while aimed_at >= STEPS_AT_LEAST:
            stretch = choose(self.points, workers * ahead, disturbed, away, aimed_at)
            if stretch is None:
                return None
            mine = sorted(self._spans(stretch))
            made = self._fetches(stretch)
            if len(mine) <= spans and len(made) <= fetches:
                return self._excerpt(stretch, mine, made, origin)
            aimed_at //= 2
        return None

    def _excerpt(self, stretch: Stretch, mine: list[Found], made: list[Fetched], origin: int) -> Excerpt:
        spans = Spans()
        for begin, duration, what, batch in mine:
            spans.t.append(_seconds(begin - origin))
            spans.length_s.append(_seconds(duration))
            spans.what.append(what)
            spans.batch.append(batch)
        fetches = Fetches()
        for fetch, batch_row, count, crew in made:
            self._append(fetches, fetch, batch_row, count, crew, origin)
        return Excerpt(
            loader=self.loop.loader, pid=self.loop.pid, thread=self.loop.thread,
            start_s=_seconds(stretch.begin - origin), end_s=_seconds(stretch.end - origin),
            steps=stretch.steps, looks=stretch.looks, wait_s=_seconds(stretch.wait),
            spans=spans, fetches=fetches,
        )  # fmt: skip

    def _spans(self, stretch: Stretch) -> Iterator[Found]:
        """Everything that the loop's thread was seen in, from the wait that the stretch begins after to the
        one that it ends with. What is summed up over several calls has no instant, and is left out."""
        thread = self.loop.thread
        mine = {arrival.next.t: (one, arrival) for one in self.group for arrival in one.arrivals}
        first = self.points[stretch.first].arrival.next.t
        evaluating = [one for one in self.everything if one.thread == thread and one.role == "evaluation"]
        for one in evaluating:
            if one.finish > stretch.begin and one.begin < stretch.end:
                yield one.begin, one.finish - one.begin, "evaluation", None
        for row in self.diary.rows:
            if row.thread != thread or not (stretch.begin <= row.t < stretch.end or row.t == first):
                continue
            if row.kind == wire.NEXT and row.t in mine:
                iteration, arrival = mine[row.t]
                yield row.t, row.duration, "wait", self.base[iteration.number] + arrival.next.a - 1
            elif any(one.begin <= row.t < one.finish for one in evaluating):
                continue
            elif row.kind in (wire.NEXT, wire.END):
                yield row.t, row.duration, "wait", None
            elif row.kind == wire.EPOCH:
                yield row.t, row.duration, "opening", None
            elif row.kind == wire.OPERATION and row.d <= 1 and 0 <= row.c < len(HOST_WORK):
                yield row.t, row.duration, HOST_WORK[row.c], None
            elif row.kind == wire.EXCHANGE and row.thing:
                yield row.t, row.duration, "exchange", None
            elif row.kind in KINDS:
                yield row.t, row.duration, KINDS[row.kind], None

    def _fetches(self, stretch: Stretch) -> list[Fetched]:
        """The fetches under way in the stretch, and of each process the one before and the one after."""
        found: list[Fetched] = []
        for crew in self.crew:
            mine = [
                row for row in crew.diary.rows if row.kind == wire.FETCH and crew.thing in (None, row.thing)
            ]
            mine.sort()
            early = sum(row.t + row.duration <= stretch.begin for row in mine)
            late = sum(row.t < stretch.end for row in mine)
            if early < late or 0 < late < len(mine):  # in it, or idle all through it
                wanted = {row.t for row in mine[max(0, early - 1) : late + 1]}
                found += [(*rows, crew) for rows in books_of(crew, wanted)]
        return sorted(found, key=lambda rows: rows[0].t)

    def _append(self, table: Fetches, fetch: Row, batch: Row, count: Row, crew: Crew, origin: int) -> None:
        known = batch_of(self.deals, crew.diary.pid, fetch.t, count.a) if crew.thing is None else None
        table.t.append(_seconds(fetch.t - origin))
        table.worker.append(crew.worker)
        table.number.append(max(0, count.a))
        table.wall_s.append(_seconds(fetch.duration))
        table.cpu_s.append(_seconds(min(max(0, fetch.a), fetch.duration)))
        table.other_cpu_s.append(_seconds(max(0, fetch.c - fetch.a)))
        table.runq_s.append(_seconds(fetch.b) if fetch.b >= 0 else None)
        table.collate_s.append(_seconds(max(0, batch.duration)))
        table.collate_cpu_s.append(_seconds(max(0, batch.a)))
        table.batch.append(known)


def _with_all_waits(points: list[Point], others: Sums) -> list[Point]:
    """The points with what the loop waited for other loaders of the same steps, as its table has it."""
    pairs = pairwise(points)
    more = (
        replace(point, wait=point.wait + others.between(one.arrival.t, point.arrival.t))
        for one, point in pairs
    )
    return [*points[:1], *more]


def _made(crew: list[Crew]) -> dict[int, int]:
    """How many fetches each worker process is known to have made."""
    return {
        one.diary.pid: max((row.a for row in one.diary.rows if row.kind == wire.COUNT), default=0)
        for one in crew
        if one.thing is None
    }


def _seconds(nanoseconds: int) -> float:
    """Rounded to what was measured: so a profile stays small."""
    return round(nanoseconds * S, 9)
