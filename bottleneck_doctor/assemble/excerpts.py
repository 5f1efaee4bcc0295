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
from .loops import evaluations, waits_for_others
from .rows import ProcessLog, Row, S, append
from .steps import ArrivalPoint, Sums, line_up


@dataclass(frozen=True)
class BatchAssignment:
    """The batches of one pass by worker: the n-th fetch of worker w is batch (n - 1) x workers
    + w of the pass, ``base`` batches of the loop having gone before. ``before`` = fetches that the process
    had made by then."""

    begin: int
    base: int
    workers: int
    worker: int
    before: int
    batches: int

    def batch(self, number: int) -> int | None:
        """The batch, counted over the whole loop; None for one that never arrived."""
        place = (number - self.before - 1) * self.workers + self.worker
        return self.base + place if 0 <= place < self.batches else None


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
    fetchers: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for row in log.of(wire.WORKER):
        fetchers.setdefault((row.t, row.loader), []).append((row.pid, row.worker))
    begun = {t: fetcher for (t, _), fetcher in fetchers.items()}
    base, deals = bases(group), Deals()
    broken: set[int] = set()
    for one in group:
        fetcher = begun.get(one.begin, [])
        least = min(((made or {}).get(pid, 0) for pid, _ in fetcher), default=0) * len(fetcher)
        batches = min(one.batches, least) if runs_dry else one.batches
        for pid, worker in fetcher:
            known = deals.setdefault(pid, [])
            if pid not in broken:
                before = known[-1].before + _dealt(known[-1]) if known else 0
                known.append(
                    BatchAssignment(one.begin, base[one.number], len(fetcher), worker, before, batches)
                )
        if one.end is None or one.end.how != wire.EXHAUSTED:  # what was made ahead was thrown away
            broken.update(pid for pid, _ in fetcher)
    return deals


def _dealt(deal: BatchAssignment) -> int:
    """How many batches of a whole pass one worker makes."""
    return max(0, -(-(deal.batches - deal.worker) // deal.workers))


def batch_of(deals: Deals, pid: int, begin: int, number: int) -> int | None:
    """The batch that this fetch of a process made, if that is certain."""
    deal = next((one for one in reversed(deals.get(pid, [])) if one.begin <= begin), None)
    return deal.batch(number) if deal is not None else None


STEPS_AIMED_AT = 40  # enough rounds of a few workers, few enough to distinguish on a screen (chosen)
STEPS_AT_LEAST, STEPS_AT_MOST = 8, 64
TRIED_AT_MOST = 4000  # of a long run not every place is tried
LOOKS_AT_LEAST = 4  # sampled steps: with fewer, most of the lanes would be empty
WARMUP_STEPS, WARMUP_SHARE = 10, 0.34  # set aside here; the analysis sets aside no more
PARTS = 16  # of a loop, to tell what is typical of it (chosen)
PACE_COUNTS = 0.5  # how an untypical step time weighs against an untypical share of waiting (chosen)
UNSEEN_COSTS = 1.0  # as much as that share being off by so much, were no step seen (chosen)
SHORT_COSTS = 0.1  # the same, had it no steps (chosen)


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

    @property
    def waiting(self) -> float:
        """Share of its time in which the loop waited."""
        return self.wait / max(1, self.wall)


def choose(
    points: list[ArrivalPoint], slots: int, disturbed: list[tuple[int, int]], evaluation: Sums, aimed_at: int
) -> ExcerptRange | None:
    """The best sampled stretch of about so many steps that is most like the whole loop; None where none
    qualifies. ``slots`` batches may be made ahead, ``disturbed`` are stretches of time, in nanoseconds.

    Without evaluation in it, unless the loop evaluates every few steps.
    """
    if len(points) < 2:
        return None
    track = _Track(points, evaluation)
    total = track.steps[-1]
    warmup = min(max(WARMUP_STEPS, 2 * slots), int(WARMUP_SHARE * total))
    lengths = [aimed_at >> halved for halved in range(3) if aimed_at >> halved >= STEPS_AT_LEAST]
    found = [one for length in lengths for one in _stretches(track, warmup, length)]
    found = [one for one in found if not _overlaps(one, disturbed)]
    apart = [one for one in found if not evaluation.between(one.begin, one.end)]
    waiting, pace = _typical(track, warmup)
    return min(apart or found, key=lambda one: _oddness(one, waiting, pace), default=None)


class _Track:
    """A loop's points with sums over them; the first point's own step and wait lie before it."""

    def __init__(self, points: list[ArrivalPoint], evaluation: Sums) -> None:
        self.points, self.evaluation = points, evaluation
        self.steps = list(accumulate((max(1, point.steps) for point in points[1:]), initial=0))
        self.waits = list(accumulate((point.wait for point in points[1:]), initial=0))

    def stretch(self, first: int, last: int) -> ExcerptRange:
        """What lies between two points; evaluation is none of its time."""
        begin, end = self.points[first].arrival.t, self.points[last].arrival.t
        steps, wait = self.steps[last] - self.steps[first], self.waits[last] - self.waits[first]
        wall = end - begin - self.evaluation.between(begin, end)
        return ExcerptRange(first, last, begin, end, steps, wait, max(1, wall))


def _stretches(track: _Track, warmup: int, aimed_at: int) -> Iterator[ExcerptRange]:
    """One stretch from each point on: as many steps as are aimed at, or what is left at the loop's end."""
    begin, end = bisect_left(track.steps, warmup), len(track.steps) - 1
    for first in range(begin, end, max(1, (end - begin) // TRIED_AT_MOST)):
        last = min(bisect_left(track.steps, track.steps[first] + aimed_at), len(track.steps) - 1)
        one = track.stretch(first, last)
        if STEPS_AT_LEAST <= one.steps <= STEPS_AT_MOST and one.looks >= LOOKS_AT_LEAST:
            yield one


def _overlaps(one: ExcerptRange, disturbed: list[tuple[int, int]]) -> bool:
    return any(begin < one.end and one.begin < end for begin, end in disturbed)


def _typical(track: _Track, warmup: int) -> tuple[float, float]:
    """Medians of the loop's parts: the share of waiting, and nanoseconds per step. If a loop changes for good
    in mid-run, the longer part decides."""
    total = track.steps[-1]
    edges = (warmup + (total - warmup) * place // PARTS for place in range(PARTS + 1))
    places = sorted({bisect_left(track.steps, edge) for edge in edges})
    parts = [track.stretch(first, last) for first, last in pairwise(places)] or [track.stretch(0, 1)]
    return median(one.waiting for one in parts), median(one.wall / one.steps for one in parts)


def _oddness(one: ExcerptRange, waiting: float, pace: float) -> float:
    """A stretch's distance from the loop's medians, plus penalties for unsampled and for few steps."""
    off = min(1.0, abs(one.wall / one.steps / pace - 1))
    unseen = 1 - one.looks / one.steps
    short = max(0.0, 1 - one.steps / STEPS_AIMED_AT)
    return abs(one.waiting - waiting) + PACE_COUNTS * off + UNSEEN_COSTS * unseen + SHORT_COSTS * short


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
    room = max(PART, len(training))
    found = []
    for loop in training:
        loader = next((one for one in loaders if one.key == loop.loader), None)
        reader = _Reader(loop, loader, by_pid[loop.pid], iterations[loop.pid], fetchers.get(loop.loader, []))
        found.append(reader.read(windows, origin, SPANS_AT_MOST // room, FETCHES_AT_MOST // room))
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
        self.group = one_after_another(
            [
                one
                for one in everything
                if (one.thread, one.loader, one.role) == (loop.thread, loop.loader, loop.role)
            ]
        )
        self.fetcher = [one for one in fetcher if one.loader is None or one.log.pid == loop.pid]
        self.points = _with_all_waits(line_up(self.group), waits_for_others(self.group, everything))
        self.base = bases(self.group)
        self.deals = read_deals(log, self.group, loader, _made(self.fetcher))

    def read(self, windows: list[InstrumentWindow], origin: int, spans: int, fetches: int) -> Excerpt | None:
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

    def _excerpt(self, stretch: ExcerptRange, mine: list[Found], made: list[Fetched], origin: int) -> Excerpt:
        spans = Spans()
        for begin, duration, what, batch in mine:
            append(spans, t=_seconds(begin - origin), length_s=_seconds(duration), what=what, batch=batch)
        fetches = Fetches()
        for fetch, batch_row, count, fetcher in made:
            self._append(fetches, fetch, batch_row, count, fetcher, origin)
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

    def _append(
        self, table: Fetches, fetch: Row, batch: Row, count: Row, fetcher: Fetcher, origin: int
    ) -> None:
        own = fetcher.loader is None
        append(
            table,
            t=_seconds(fetch.t - origin),
            worker=fetcher.worker,
            number=max(0, count.fetches),
            wall_s=_seconds(fetch.duration),
            cpu_s=_seconds(min(max(0, fetch.cpu_ns), fetch.duration)),
            other_cpu_s=_seconds(max(0, fetch.process_cpu_ns - fetch.cpu_ns)),
            runq_s=_seconds(fetch.run_queue_ns) if fetch.run_queue_ns >= 0 else None,
            collate_s=_seconds(batch.collate_ns),
            collate_cpu_s=_seconds(max(0, batch.collate_cpu_ns)),
            batch=batch_of(self.deals, fetcher.log.pid, fetch.t, count.fetches) if own else None,
        )


def _with_all_waits(points: list[ArrivalPoint], others: Sums) -> list[ArrivalPoint]:
    """The points with what the loop waited for other loaders of the same steps, as its table has it."""
    pairs = pairwise(points)
    more = (
        replace(point, wait=point.wait + others.between(one.arrival.t, point.arrival.t))
        for one, point in pairs
    )
    return [*points[:1], *more]


def _made(fetcher: list[Fetcher]) -> dict[int, int]:
    """How many fetches each worker process is known to have made."""
    return {
        one.log.pid: max((row.fetches for row in one.log.of(wire.COUNT)), default=0)
        for one in fetcher
        if one.loader is None
    }


def _seconds(nanoseconds: int) -> float:
    """Rounded to what was measured: so a profile stays small."""
    return round(nanoseconds * S, 9)
