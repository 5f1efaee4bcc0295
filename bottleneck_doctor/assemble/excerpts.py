"""Keeps some consecutive steps of each loop as they were, so that who waits for whom can be drawn."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from statistics import median

from ..agent import wire
from ..model.instruments import InstrumentWindow
from ..model.loops import Loader, Loop
from ..model.picture import Excerpt, Fetches, Spans
from .fetches import Fetcher, books_of
from .loaders import Iteration, one_after_another
from .rows import ProcessLog, Row, S, append
from .steps import ArrivalPoint, evaluations, line_up, waits_for_others
from .stretches import Sums


@dataclass(frozen=True)
class BatchAssignment:
    """The batches of one pass by worker: the n-th fetch of worker w is batch (n - 1) x workers + w of the
    pass. ``base`` batches of the loop arrived before it, ``before`` fetches the process had made by then."""

    begin: int
    base: int
    workers: int
    worker: int
    before: int
    batches: int

    @property
    def after(self) -> int:
        """Fetches that the process has made when the whole pass is over."""
        return self.before + max(0, -(-(self.batches - self.worker) // self.workers))


Deals = dict[int, list[BatchAssignment]]  # by the worker's process, in order of begin


def bases(group: list[Iteration]) -> dict[int, int]:
    """How many batches of a loop arrived before each of its iterations."""
    found, before = {}, 0
    for one in group:
        found[one.number] = before
        before += one.batches
    return found


def read_deals(
    log: ProcessLog, group: list[Iteration], loader: Loader | None, made: Mapping[int, int] | None = None
) -> Deals:
    """The worker of each batch in each pass of a loop; empty if the order is not certain, because batches are
    handed over as they are finished. ``made``: the known number of fetches of each worker process. With an
    iterable dataset the round-robin order holds until the first worker may be exhausted, and the sum over
    several passes is not known."""
    runs_dry = loader is not None and loader.dataset_kind != "map"
    if loader is None or not loader.in_order or (runs_dry and loader.persistent_workers):
        return {}
    begun: dict[int, list[tuple[int, int]]] = {}
    for row in log.of(wire.WORKER):
        begun.setdefault(row.t, []).append((row.pid, row.worker))
    base, deals = bases(group), Deals()
    broken: set[int] = set()
    for one in group:
        fetcher = begun.get(one.begin, [])
        least = min(((made or {}).get(pid, 0) for pid, _ in fetcher), default=0) * len(fetcher)
        batches = min(one.batches, least) if runs_dry else one.batches
        for pid, worker in fetcher:
            known = deals.setdefault(pid, [])
            if pid not in broken:
                before = known[-1].after if known else 0
                given = (one.begin, base[one.number], len(fetcher), worker, before, batches)
                known.append(BatchAssignment(*given))
        if one.end is None or one.end.how != wire.EXHAUSTED:  # what was made ahead was thrown away
            broken.update(pid for pid, _ in fetcher)
    return deals


def batch_of(deals: Deals, pid: int, begin: int, number: int) -> int | None:
    """The batch that this fetch of a process made, counted over the whole loop; None if that is not certain,
    or if it never arrived."""
    deal = next((one for one in reversed(deals.get(pid, [])) if one.begin <= begin), None)
    if deal is None:
        return None
    place = (number - deal.before - 1) * deal.workers + deal.worker
    return deal.base + place if 0 <= place < deal.batches else None


STEPS_AT_LEAST, STEPS_AIMED_AT, STEPS_AT_MOST = 8, 40, 64
TRIED_AT_MOST = 4000  # of a long run not every place is tried
LOOKS_AT_LEAST = 4  # sampled steps: with fewer, most of the lanes would be empty
WARMUP_STEPS, WARMUP_SHARE = 10, 0.34  # set aside here; the analysis sets aside no more


@dataclass(frozen=True)
class ExcerptRange:
    """From one arrival of a loop to a later one: their indices in its points, and sums between them."""

    first: int
    last: int
    begin: int
    end: int
    steps: int
    wait: int
    wall: int

    @property
    def looks(self) -> int:
        """Sampled steps in it."""
        return self.last - self.first


def choose(
    points: list[ArrivalPoint], slots: int, disturbed: list[tuple[int, int]], evaluation: Sums, aimed_at: int
) -> ExcerptRange | None:
    """A stretch of about ``aimed_at`` steps, or a half or a quarter of them: that with the largest share of
    sampled steps (to a tenth), of these the longest, and of these the one whose steps are most like the
    loop's median in wait and duration. None where none qualifies. ``slots`` batches may be made ahead.

    Without evaluation in it, unless the loop evaluates every few steps.
    """
    if len(points) < 2:
        return None
    steps = list(accumulate((max(1, point.steps) for point in points[1:]), initial=0))
    waits = list(accumulate((point.wait for point in points[1:]), initial=0))

    def stretch(first: int, last: int) -> ExcerptRange:
        begin, end = points[first].arrival.t, points[last].arrival.t
        wall = end - begin - evaluation.between(begin, end)
        sums = steps[last] - steps[first], waits[last] - waits[first], max(1, wall)
        return ExcerptRange(first, last, begin, end, *sums)

    warmup = min(max(WARMUP_STEPS, 2 * slots), int(WARMUP_SHARE * steps[-1]))
    begin, end = bisect_left(steps, warmup), len(steps) - 1
    found = []
    for length in (aimed_at, aimed_at // 2, aimed_at // 4):
        for first in range(begin, end, max(1, (end - begin) // TRIED_AT_MOST)):
            one = stretch(first, min(bisect_left(steps, steps[first] + length), end))
            sound = STEPS_AT_LEAST <= one.steps <= STEPS_AT_MOST and one.looks >= LOOKS_AT_LEAST
            if sound and not any(first < one.end and one.begin < last for first, last in disturbed):
                found.append(one)
    parts = [stretch(first, min(first + aimed_at, end)) for first in range(begin, end, aimed_at)]
    wait, wall = (
        median([getattr(one, name) / one.steps for one in parts] or [0.0]) for name in ("wait", "wall")
    )

    def rank(one: ExcerptRange) -> tuple[bool, float, int, float]:
        off = abs(one.wait / one.steps - wait) + abs(one.wall / one.steps - wall)
        unseen = 1 - one.looks / one.steps
        return unseen > 0, round(unseen, 1), -one.steps, off

    apart = [one for one in found if not evaluation.between(one.begin, one.end)]
    return min(apart or found, key=rank, default=None)


LOOPS_AT_MOST = 8  # the longest training loops of a run: ranks beyond that are not drawn
SPANS_AT_MOST, FETCHES_AT_MOST = 800, 1200  # of all loops together
PART = 2  # of these at most for one loop, even if it is alone

HOST_WORK = wire.OPERATIONS[:3]  # what else is forced to the disk is the loop's own time

Found = tuple[int, int, str, int | None]  # begin, duration, what, batch: of the loop's thread
Fetched = tuple[Row, Row, Row, Fetcher]
KINDS = {
    wire.BACKWARD: "backward", wire.OPTIMIZER: "optimizer", wire.COLLECTION: "collect",
    wire.COLLECTIVE: "exchange", wire.DEVICE_COPY: "copy", wire.DEVICE_WAIT: "sync",
}  # fmt: skip


def read_excerpts(
    loops: list[Loop],
    loaders: list[Loader],
    fetchers: dict[str, list[Fetcher]],
    logs: list[ProcessLog],
    iterations: dict[int, list[Iteration]],
    windows: list[InstrumentWindow],
    origin: int,
) -> list[Excerpt]:
    """One excerpt of each of the longest training loops, where some of its steps were seen densely enough."""
    training = sorted((one for one in loops if one.role == "train"), key=lambda one: -one.wall_s)
    training = training[:LOOPS_AT_MOST]
    by_pid = {log.pid: log for log in logs}
    by_key = {one.key: one for one in loaders}
    disturbed = [(int(one.start_s / S) + origin, int(one.end_s / S) + origin) for one in windows]
    room = max(PART, len(training))
    found = []
    for loop in training:
        members = fetchers.get(loop.loader, [])
        reader = _Reader(loop, by_key.get(loop.loader), by_pid[loop.pid], iterations[loop.pid], members)
        found.append(reader.read(disturbed, origin, SPANS_AT_MOST // room, FETCHES_AT_MOST // room))
    return [one for one in found if one is not None]


class _Reader:
    """The rows about one loop."""

    def __init__(
        self,
        loop: Loop,
        loader: Loader | None,
        log: ProcessLog,
        everything: list[Iteration],
        fetcher: list[Fetcher],
    ) -> None:
        self.loop, self.loader, self.log, self.everything = loop, loader, log, everything
        which = (loop.thread, loop.loader, loop.role)
        self.group = one_after_another(
            [one for one in everything if (one.thread, one.loader, one.role) == which]
        )
        self.fetcher = [one for one in fetcher if one.loader is None or one.log.pid == loop.pid]
        others = waits_for_others(self.group, everything)
        alone = line_up(self.group)
        self.points = alone[:1] + [
            replace(point, wait=point.wait + others.between(before.arrival.t, point.arrival.t))
            for before, point in pairwise(alone)
        ]
        self.base = bases(self.group)
        made = {
            one.log.pid: max((row.fetches for row in one.log.of(wire.COUNT)), default=0)
            for one in self.fetcher if one.loader is None
        }  # fmt: skip
        self.deals = read_deals(log, self.group, loader, made)

    def read(self, disturbed: list[tuple[int, int]], origin: int, spans: int, fetches: int) -> Excerpt | None:
        """Some typical steps, as many as there is room for; None where none were seen well enough."""
        slots = self.loader.num_workers * (self.loader.prefetch_factor or 2) if self.loader else 0
        away = evaluations(self.group[0], self.everything)
        aimed_at = STEPS_AIMED_AT
        while aimed_at >= STEPS_AT_LEAST:
            stretch = choose(self.points, slots, disturbed, away, aimed_at)
            if stretch is None:
                return None
            mine = sorted(self._spans(stretch))
            made = self._fetches(stretch)
            if len(mine) <= spans and len(made) <= fetches:
                return self._excerpt(stretch, mine, made, origin)
            aimed_at //= 2
        return None

    def _excerpt(self, stretch: ExcerptRange, mine: list[Found], made: list[Fetched], origin: int) -> Excerpt:
        spans, fetches = Spans(), Fetches()
        for begin, duration, what, batch in mine:
            append(spans, t=_seconds(begin - origin), length_s=_seconds(duration), what=what, batch=batch)
        for fetch, batch_row, count, fetcher in made:
            own = fetcher.loader is None
            append(
                fetches,
                t=_seconds(fetch.t - origin),
                worker=fetcher.worker,
                number=max(0, count.fetches),
                wall_s=_seconds(fetch.duration),
                cpu_s=_seconds(min(max(0, fetch.cpu_ns), fetch.duration)),
                other_cpu_s=_seconds(max(0, fetch.process_cpu_ns - fetch.cpu_ns)),
                runq_s=_seconds(fetch.run_queue_ns) if fetch.run_queue_ns >= 0 else None,
                collate_s=_seconds(batch_row.collate_ns),
                collate_cpu_s=_seconds(max(0, batch_row.collate_cpu_ns)),
                batch=batch_of(self.deals, fetcher.log.pid, fetch.t, count.fetches) if own else None,
            )
        return Excerpt(
            loader=self.loop.loader, pid=self.loop.pid, thread=self.loop.thread,
            start_s=_seconds(stretch.begin - origin), end_s=_seconds(stretch.end - origin),
            steps=stretch.steps, looks=stretch.looks, wait_s=_seconds(stretch.wait),
            spans=spans, fetches=fetches,
        )  # fmt: skip

    def _spans(self, stretch: ExcerptRange) -> Iterator[Found]:
        """Everything that the loop's thread was seen in, from the wait that the stretch begins after to the
        one that it ends with. What is summed up over several calls has no instant, and is left out."""
        thread = self.loop.thread
        mine = {arrival.next.t: (one, arrival) for one in self.group for arrival in one.arrivals}
        first = self.points[stretch.first].arrival.next.t
        evaluating = [one for one in self.everything if one.thread == thread and one.role == "evaluation"]
        for one in evaluating:
            if one.finish > stretch.begin and one.begin < stretch.end:
                yield one.begin, one.finish - one.begin, "evaluation", None
        for row in self.log.rows:
            if row.thread != thread or not (stretch.begin <= row.t < stretch.end or row.t == first):
                continue
            if row.kind == wire.NEXT and row.t in mine:
                iteration, arrival = mine[row.t]
                yield row.t, row.duration, "wait", self.base[iteration.number] + arrival.next.arrivals - 1
            elif any(one.begin <= row.t < one.finish for one in evaluating):
                continue
            elif row.kind in (wire.NEXT, wire.END):
                yield row.t, row.duration, "wait", None
            elif row.kind == wire.EPOCH:
                yield row.t, row.duration, "opening", None
            elif row.kind == wire.OPERATION:
                if row.calls <= 1 and 0 <= row.operation < len(HOST_WORK):
                    yield row.t, row.duration, HOST_WORK[row.operation], None
            elif row.kind == wire.EXCHANGE and row.exchanged:
                yield row.t, row.duration, "exchange", None
            elif row.kind in KINDS:
                yield row.t, row.duration, KINDS[row.kind], None

    def _fetches(self, stretch: ExcerptRange) -> list[Fetched]:
        """The fetches under way in the stretch, and of each process the one before and the one after."""
        found: list[Fetched] = []
        for fetcher in self.fetcher:
            mine = fetcher.rows(wire.FETCH)
            early = sum(row.end <= stretch.begin for row in mine)
            late = sum(row.t < stretch.end for row in mine)
            if early < late or 0 < late < len(mine):  # in it, or idle all through it
                wanted = {row.t for row in mine[max(0, early - 1) : late + 1]}
                found += [(*rows, fetcher) for rows in books_of(fetcher, wanted)]
        return sorted(found, key=lambda rows: rows[0].t)


def _seconds(nanoseconds: int) -> float:
    """Rounded to what was measured: so a profile stays small."""
    return round(nanoseconds * S, 9)
