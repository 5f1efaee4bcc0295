"""Divides the lifetime of each training process by what its training thread was seen to do."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ..agent import wire
from ..model.loops import Loader
from ..model.run import Elapsed
from .facts import ExitFact
from .fetches import Fetcher
from .loaders import Iteration, arrivals_while_training, pieces
from .rows import ProcessLog, S
from .stretches import gaps, joined, length, shared

NEVER = 1 << 62


# Where stretches overlap, the later kind is what the time is counted as.
KINDS = (
    "training_s", "evaluation_s", "starting_s", "starting_evaluation_s", "stopping_s", "profiled_s",
    "checkpoint_s",
)  # fmt: skip
TRAINING, EVALUATION, STARTING, STARTING_EVALUATION, STOPPING, PROFILED, CHECKPOINT = range(len(KINDS))

STRIDE_GROWTH = 4  # times the distance of the last two samples may pass until the next one [agent/state.py]


class TimedSpan(NamedTuple):
    """From one instant to another, in nanoseconds, and the place of its kind in ``KINDS``."""

    begin: int
    end: int
    kind: int


class LoaderWorkers(NamedTuple):
    """Of a loader: its number of workers, and what one of its batches usually takes to make."""

    workers: int
    fetch: int


def read_fetchers(loaders: list[Loader], fetchers: dict[str, list[Fetcher]]) -> dict[str, LoaderWorkers]:
    """The loaders that have workers. What a worker prepares for its first batch belongs to its start."""
    found = {}
    for loader in loaders:
        if loader.num_workers:
            members = fetchers.get(loader.key, [])
            fetched = ([row.duration for row in one.log.of(wire.FETCH)] for one in members)
            every = [one for one in fetched if one]
            later = [taken for one in every for taken in one[1:]]
            usual = round(median(later)) if later else min((one[0] for one in every), default=0)
            found[loader.key] = LoaderWorkers(loader.num_workers, usual)
    return found


def read_elapsed(
    log: ProcessLog,
    iterations: list[Iteration],
    fetchers: dict[str, LoaderWorkers],
    origin: int,
    run_end: int,
) -> Elapsed | None:
    """None for a process in which nothing was seen to be trained."""
    thread = _thread(log, iterations)
    exit_fact = log.first(ExitFact)
    exit_ns = exit_fact.at_ns if (exit_fact.at_ns or 0) > log.start_ns else None
    until = exit_ns or run_end
    mine = [one for one in iterations if one.thread == thread and one.role in ("train", "evaluation")]
    passes = list(_passes(mine, _tails(mine, exit_fact, until)))
    alone = _alone(log, thread, bool(passes), exit_fact)
    training = [one for one in passes if one.kind == TRAINING] + alone
    if not training:
        return None
    starts = list(_starts(mine, fetchers))
    which = wire.OPERATIONS.index("checkpoint")
    saves = [row for row in log.of(wire.OPERATION, thread=thread) if row.operation == which]
    stops, windows = log.of(wire.STOPPED_WORKERS, thread=thread), log.of(wire.PROFILER_WINDOW)
    others = ((STOPPING, stops), (PROFILED, windows), (CHECKPOINT, saves))
    every = [*passes, *alone, *starts]
    every += [TimedSpan(row.t, row.end, kind) for kind, rows in others for row in rows]
    every = [TimedSpan(one.begin, min(one.end, until), one.kind) for one in every]
    first = min(one.begin for one in training)
    last = max(first, *(one.end for one in every))
    before, between, spent = paint(every, first)
    second = next(iter(sorted({one.begin for one in mine})[1:]), NEVER)
    return Elapsed(
        pid=log.pid,
        first_s=max(0, first - origin) * S,
        last_s=max(0, last - origin) * S,
        exit_s=max(0, exit_ns - origin) * S if exit_ns else None,
        preparing_s=max(0, first - log.start_ns - before) * S,
        between_s=between * S,
        first_start_s=sum(one.end - one.begin for one in starts if one.begin < second) * S,
        beginnings=sum(one.loader in fetchers for one in mine),
        **{name: taken * S for name, taken in zip(KINDS, spent, strict=True)},
    )


def _thread(log: ProcessLog, iterations: list[Iteration]) -> int:
    """The thread that trains: the one with most batches of training, else the one that steps or derives."""
    batches: Counter[int] = Counter()
    for one in iterations:
        if one.role == "train":
            batches[one.thread] += one.batches
    if batches:
        return batches.most_common(1)[0][0]
    kinds = (wire.STEP, wire.OPTIMIZER, wire.BACKWARD)
    return next((row.thread for kind in kinds for row in log.of(kind)), 0)


def paint(spans: list[TimedSpan], first: int) -> tuple[int, int, list[int]]:
    """(what is covered before ``first``, what is not from there on, the time of each kind)."""
    covered: list[tuple[int, int]] = []
    spent = [0] * len(KINDS)
    for kind in reversed(range(len(KINDS))):
        before = length(covered)
        covered = joined([*covered, *((one.begin, one.end) for one in spans if one.kind == kind)])
        spent[kind] = length(covered) - before
    last = covered[-1][1] if covered else first
    return length(shared(covered, 0, first)), length(gaps(covered, first, last)), spent


def _passes(mine: list[Iteration], tails: dict[int, int]) -> Iterator[TimedSpan]:
    """Training from a pass's begin to its end; evaluation without pieces in which training batches came."""
    trained = arrivals_while_training(mine, mine[0].thread) if mine else []
    for one in mine:
        end = one.end.t if one.end is not None else one.finish + tails.get(one.number, 0)
        if one.role == "train":
            yield TimedSpan(one.begin, end, TRAINING)
        else:
            yield from (TimedSpan(*piece, EVALUATION) for piece in pieces(one, trained, end))


def _tails(mine: list[Iteration], exit_fact: ExitFact, until: int) -> dict[int, int]:
    """Nanoseconds of each pass without a recorded end after its last sampled batch: as many steps as lie
    between two samples, but not into the next pass. Where the process counted its batches, the steps left
    over are shared among the passes by the room each has."""
    left = [one for one in mine if one.end is None and one.arrivals]
    begins = sorted(one.begin for one in mine)
    rooms: dict[int, tuple[float, float]] = {}
    for one in left:
        step, apart = _pace(one)
        after = begins[place] if (place := bisect_right(begins, one.finish)) < len(begins) else until
        room = max(0, after - one.finish) / step if step > 0 else 0.0
        most = (apart + 1.0) * (1 if exit_fact.arrivals is None else STRIDE_GROWTH)
        rooms[one.number] = step, min(room, most)
    scale = 1.0
    if exit_fact.arrivals is not None:
        steps = exit_fact.arrivals - sum(one.batches for one in mine) + len(left)  # and after the last batch
        scale = min(1.0, max(0, steps) / max(1e-9, sum(room for _, room in rooms.values())))
    return {number: round(step * room * scale) for number, (step, room) in rooms.items()}


def _pace(one: Iteration) -> tuple[float, int]:
    """(nanoseconds per batch, batches between the last two samples)."""
    if len(one.arrivals) < 2:
        return 0.0, 0
    first, before, last = one.arrivals[0], one.arrivals[-2], one.arrivals[-1]
    each = (last.t - first.t) / max(1, last.next.arrivals - first.next.arrivals)
    return each, max(0, last.next.arrivals - before.next.arrivals - 1)


def _alone(log: ProcessLog, thread: int, passes: bool, exit_fact: ExitFact) -> list[TimedSpan]:
    """The training of a thread without a loader: from its first backward pass or optimizer step on."""
    moves = log.of(wire.BACKWARD, wire.OPTIMIZER, thread=thread)
    ends = log.of(wire.STEP, thread=thread)
    if len(ends) < 2:
        seen = not passes and len(moves) >= 2
        return [TimedSpan(moves[0].t, max(row.end for row in moves), TRAINING)] if seen else []
    first, last = ends[0], ends[-1]
    step = (last.t - first.t) / max(1, last.steps - first.steps)
    guess = last.steps - ends[-2].steps
    more = max(0, exit_fact.trained - last.steps) if exit_fact.trained is not None else guess
    begin = first.t if passes or not moves else min(first.t, moves[0].t)
    return [TimedSpan(begin, round(last.t + step * more), TRAINING)]


def _starts(mine: list[Iteration], fetchers: dict[str, LoaderWorkers]) -> Iterator[TimedSpan]:
    """What beginning a pass takes: building the iterator, and each worker's first batch, beyond the usual."""
    for one in mine:
        fetcher = fetchers.get(one.loader)
        if fetcher is None or not one.arrivals:
            continue
        kind = STARTING if one.role == "train" else STARTING_EVALUATION
        first = one.arrivals[0]
        yield TimedSpan(one.begin, one.begin + one.build, kind)
        yield TimedSpan(first.next.t, first.t - min(fetcher.fetch, first.next.duration), kind)
        # The usual wait for a batch once each worker gave its first; of a shorter pass, what making it takes.
        later = [arrival.next for arrival in one.arrivals if arrival.next.arrivals >= fetcher.workers]
        batches = later[-1].arrivals - later[0].arrivals if later else 0
        usual = (later[-1].wait_ns - later[0].wait_ns) / batches if batches else float(fetcher.fetch)
        for seen, arrival in pairwise(one.arrivals):
            before, row = seen.next, arrival.next
            if before.arrivals >= fetcher.workers:
                break
            extra = row.wait_ns - before.wait_ns - usual * (row.arrivals - before.arrivals)
            yield TimedSpan(arrival.t - max(0, round(extra)), arrival.t, kind)
