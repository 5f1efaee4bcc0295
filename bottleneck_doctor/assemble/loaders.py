"""Which loaders a run had, and their iterators: what trained, evaluated, or ran in another thread."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

from ..agent import wire
from ..model.code import Location, SourceCall
from ..model.codec import fields_of
from ..model.loops import Loader
from ..source.files import Mask
from ..source.reader import Site, read_call
from .facts import LoaderFact, ParallelFact, SiteFact
from .rows import ProcessLog, Row

Numbering = dict[tuple[int, int], str]  # (pid, the loader's number in that process) -> key
IDENTITY = ("file", "line", "dataset", "length", "batch_size", "num_workers", "collate", "sampler")
CONSTRUCTION = ("arguments", "file", "line", "function", "columns", "through")  # of a call that built one


def read_loaders(
    logs: list[ProcessLog], cwd: str = "", mask: Mask | None = None
) -> tuple[list[Loader], Numbering]:
    """The loaders of all processes and the key of each numbered construction.

    Scripts often build the same loader once an epoch; a key is (process, place, arguments), so these
    are one loader with several epochs. Without a ``mask`` for secrets no source text is kept.
    """
    loaders: dict[tuple[object, ...], Loader] = {}
    numbering: Numbering = {}
    call = cache(lambda site: read_call(site, cwd, mask) if mask else None)  # thousands may have one site
    facts = [(log.pid, fact) for log in logs for fact in log.facts_of(LoaderFact)]
    built = {f"{pid}:{fact.thing}": fact for pid, fact in facts if fact.file}
    for pid, fact in facts:
        origin = built.get(fact.origin)
        if origin is not None:
            fact = replace(fact, **{name: getattr(origin, name) for name in CONSTRUCTION})
        identity = (pid, *(getattr(fact, name) for name in IDENTITY))
        if identity not in loaders:
            loaders[identity] = _loader(f"{pid}:{len(loaders) + 1}", pid, fact, call)
        numbering[pid, fact.thing] = loaders[identity].key
    return list(loaders.values()), numbering


def _loader(key: str, pid: int, fact: LoaderFact, call: Callable[[Site], SourceCall | None]) -> Loader:
    site = Site(fact.file, fact.line, tuple(fact.columns), tuple(fact.through), frozenset(fact.arguments))
    return replace(
        Loader(**fields_of(fact, Loader)),
        key=key,
        pid=pid,
        dataset_length=fact.length,
        location=locate(fact),
        dataset_location=Location(*fact.dataset_at) if fact.dataset_at else None,
        call=call(site) if fact.file else None,
    )


def locate(fact: LoaderFact | SiteFact | ParallelFact) -> Location | None:
    """The user's line in a fact, if there is one."""
    return Location(fact.file, fact.line, fact.function) if fact.file else None


TRAINS = 0.1  # backward passes per batch from which an iterator counts as training
GATHERS = 3  # passes at least of one that gathers more batches for each: and most of all that there were


@dataclass(frozen=True)
class SampledArrival:
    """The arrival of a sampled step's batch: its NEXT row and the CLOCKS row that follows."""

    next: Row
    clocks: Row

    @property
    def t(self) -> int:
        """When the batch arrived."""
        return self.next.end


@dataclass
class Iteration:
    """One pass over a loader by one thread, while it is being put together."""

    number: int
    loader: str
    thread: int
    begin: int
    build: int = 0
    arrivals: list[SampledArrival] = field(default_factory=list)
    end: Row | None = None
    backwards: int = 0
    optimizer_steps: int = 0
    grad: bool | None = None
    role: str = ""

    @property
    def batches(self) -> int:
        """How many batches arrived, as far as is known."""
        last = self.end if self.end is not None else self.arrivals[-1].next if self.arrivals else None
        return max(0, last.arrivals) if last is not None else 0  # a damaged row may hold a negative count

    @property
    def finish(self) -> int:
        """When it was over: its end, or the last batch seen."""
        if self.end is not None:
            return self.end.end
        return self.arrivals[-1].t if self.arrivals else self.begin + self.build


def read_iterations(log: ProcessLog, numbering: Numbering) -> list[Iteration]:
    """Every iteration of one process, in order of begin, with its role."""
    found: dict[int, Iteration] = {}
    arrivals = {(row.thread, row.t): row for row in log.of(wire.NEXT)}
    rows = log.of(wire.EPOCH, wire.CLOCKS, wire.END, wire.GRAD_MODE)
    for row in sorted(rows, key=lambda row: (row.t, row.kind)):
        arrival = arrivals.pop((row.thread, row.t), None) if row.kind == wire.CLOCKS else None
        begins = row.kind == wire.EPOCH
        if begins or (arrival and row.iterator not in found):  # one built without DataLoader.__iter__
            key = numbering.get((log.pid, row.loader), f"{log.pid}:?{row.loader}")
            built = row.duration if begins else 0
            found[row.iterator] = Iteration(row.iterator, key, row.thread, row.t, built)
        if arrival:
            found[row.iterator].thread = row.thread  # the thread that asks, whichever built it
            found[row.iterator].arrivals.append(SampledArrival(arrival, row))
        elif row.kind == wire.END and row.iterator in found:
            found[row.iterator].end = row
        elif row.kind == wire.GRAD_MODE and row.iterator in found:
            found[row.iterator].grad = bool(row.recording)
    iterations = sorted(found.values(), key=lambda one: one.begin)
    _assign_roles(iterations, log)
    return iterations


def _assign_roles(iterations: list[Iteration], log: ProcessLog) -> None:
    backwards = log.of(wire.BACKWARD)
    trainers = {row.thread for row in backwards}
    _credit(iterations, backwards[-1].t if backwards else 0)
    most = max(GATHERS, sum(one.backwards for one in iterations) / 2)
    gathering = {one.loader for one in iterations if one.backwards >= most}
    for one in iterations:
        often = TRAINS * max(1, one.batches)
        if trainers and one.thread not in trainers:
            one.role = "prefetch"
        elif one.backwards >= often or (one.loader in gathering and one.backwards > 0):
            one.role = "train"
        else:
            one.role = "evaluation"
    if iterations and not trainers:  # the loader with most batches counts as the training loader
        batches: Counter[str] = Counter()
        for one in iterations:
            batches[one.loader] += one.batches
        main = batches.most_common(1)[0][0]
        for one in iterations:
            if one.loader == main:
                one.role = "train"


def _credit(iterations: list[Iteration], last_backward: int) -> None:
    """Give each iteration the backward passes and optimizer steps that followed its batches.

    Batches that came with no backward pass between them were for the same step (loaders side by side), but
    not those of an iterator that ended before the pass, or that gave several: these evaluated. Where another
    iterator gave a batch for each pass, unobserved, the passes are its own.
    """
    events = [
        (arrival.t, arrival.next.backwards, arrival.next.optimizer_steps, arrival.next.arrivals, one)
        for one in iterations
        for arrival in one.arrivals
    ]
    ended = [(one, one.end) for one in iterations if one.end is not None]
    events += [(one.finish, end.backwards, -1, end.arrivals + 1, one) for one, end in ended]
    events.sort(key=lambda event: event[0])
    waiting: list[Iteration] = []
    trained: list[Iteration] = []
    given: dict[int, int] = {}  # iterator -> batches at its last event
    backwards, steps = events[0][1:3] if events else (0, 0)
    for _, passes, optimizer_steps, batches, one in events:
        unobserved = batches - 1 - given.get(one.number, 0)
        given[one.number] = batches
        if passes > backwards:
            own = one not in waiting and unobserved >= passes - backwards
            trained = [one] if own else _sharers(waiting)
            for other in trained:
                other.backwards += passes - backwards
            waiting, backwards = [], passes
        if optimizer_steps > steps:
            for other in trained:
                other.optimizer_steps += optimizer_steps - steps
            steps = optimizer_steps
        if optimizer_steps < 0:
            waiting = [other for other in waiting if other is not one]
        else:
            waiting.append(one)
    if events and last_backward > events[-1][0]:
        for other in _sharers(waiting):
            other.backwards += 1


def _sharers(waiting: list[Iteration]) -> list[Iteration]:
    if all(one is waiting[0] for one in waiting):
        return waiting[:1]
    times = Counter(one.number for one in waiting)
    return [one for one in waiting if times[one.number] == 1]


def arrivals_while_training(iterations: list[Iteration], thread: int) -> list[int]:
    """When training batches came to a thread."""
    mine = (one for one in iterations if one.thread == thread and one.role == "train")
    return sorted(arrival.t for one in mine for arrival in one.arrivals)


def pieces(
    one: Iteration, trained: list[int], end: int | None = None, training: bool = False
) -> list[tuple[int, int]]:
    """From one event of a pass to the next (its begin, its batches, its end): the pieces in which no training
    batch came, or the others."""
    times = [one.begin, *(arrival.t for arrival in one.arrivals), one.finish if end is None else end]
    return [
        (t, later)
        for t, later in pairwise(times)
        if t < later and (bisect_left(trained, t) < bisect_left(trained, later)) == training
    ]


def one_after_another(group: list[Iteration]) -> list[Iteration]:
    """Of passes over one loader by one thread, those that make up its loop, in order of begin.

    ``zip(loader, loader)``, a loader built twice on one line, or an iterator kept aside for a sample now and
    then, are open side by side: a step has a batch of each. Passes that do not overlap are a row; the row
    with most batches is the loop, and the others are waited for in its steps, as other loaders are.
    """
    rows: list[list[Iteration]] = []
    for one in sorted(group, key=lambda one: one.begin):
        over = [row for row in rows if row[-1].finish <= one.begin]
        if over:
            max(over, key=lambda row: row[-1].finish).append(one)
        else:
            rows.append([one])
    return max(rows, key=lambda row: sum(one.batches for one in row), default=[])
