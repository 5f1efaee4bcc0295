"""Follows one process's iterators: which trained, which evaluated, which ran in a background thread."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..agent import wire
from .loaders import Numbering
from .rows import Diary, Row

TRAINS = 0.1  # backward passes per batch from which an iterator counts as training


@dataclass(frozen=True)
class Arrival:
    """A batch that was looked at closely: its NEXT row and the LOOP row that follows."""

    next: Row
    loop: Row

    @property
    def t(self) -> int:
        """When the batch was there."""
        return self.next.t + self.next.duration


@dataclass
class Iteration:
    """One pass over a loader by one thread, while it is being put together."""

    number: int
    loader: str
    thread: int
    begin: int
    build: int = 0
    arrivals: list[Arrival] = field(default_factory=list)
    end: Row | None = None
    backwards: int = 0
    role: str = ""

    @property
    def batches(self) -> int:
        """How many batches arrived, as far as is known."""
        if self.end is not None:
            return self.end.d
        return self.arrivals[-1].next.a if self.arrivals else 0

    @property
    def finish(self) -> int:
        """When it was over: its end, or the last batch seen."""
        if self.end is not None:
            return self.end.t + self.end.duration
        return self.arrivals[-1].t if self.arrivals else self.begin + self.build


def read_iterations(diary: Diary, numbering: Numbering) -> list[Iteration]:
    """Every iteration of one process, in order of begin, with its role."""
    found: dict[int, Iteration] = {}
    pending: dict[tuple[int, int], Row] = {}
    for row in sorted(diary.rows, key=lambda row: (row.t, row.kind)):
        if row.kind == wire.EPOCH:
            key = numbering.get((diary.pid, row.thing), f"{diary.pid}:?{row.thing}")
            found[row.a] = Iteration(row.a, key, row.thread, row.t, row.duration)
        elif row.kind == wire.NEXT:
            pending[row.thread, row.t] = row
        elif row.kind == wire.LOOP and (row.thread, row.t) in pending:
            _arrived(found, diary, numbering, pending.pop((row.thread, row.t)), row)
        elif row.kind == wire.END and row.a in found:
            found[row.a].end = row
    iterations = sorted(found.values(), key=lambda one: one.begin)
    _assign_roles(iterations, diary)
    return iterations


def _arrived(found: dict[int, Iteration], diary: Diary, numbering: Numbering, row: Row, loop: Row) -> None:
    number = loop.duration
    if number not in found:  # an iterator built without DataLoader.__iter__
        key = numbering.get((diary.pid, row.thing), f"{diary.pid}:?{row.thing}")
        found[number] = Iteration(number, key, row.thread, row.t)
    found[number].arrivals.append(Arrival(row, loop))


def _assign_roles(iterations: list[Iteration], diary: Diary) -> None:
    trainers = {row.thread for row in diary.rows if row.kind == wire.BACKWARD}
    everything = sorted(
        ((arrival.t, arrival.next.d, one) for one in iterations for arrival in one.arrivals),
        key=lambda entry: entry[0],
    )
    total = max([diary.board.get("backwards", 0)] + [d for _, d, _ in everything], default=0)
    last = _last_backward(diary)
    for place, (t, backwards, one) in enumerate(everything):
        later = everything[place + 1 : place + 2]
        after = later[0][1] if later else total + (1 if last > t else 0)
        one.backwards += after - backwards
    for one in iterations:
        if trainers and one.thread not in trainers:
            one.role = "prefetch"
        elif one.backwards >= TRAINS * max(1, one.batches):
            one.role = "train"
        else:
            one.role = "evaluation"
    if iterations and not trainers:
        _largest_is_main(iterations)


def _last_backward(diary: Diary) -> int:
    return max((row.t for row in diary.rows if row.kind == wire.BACKWARD), default=0)


def _largest_is_main(iterations: list[Iteration]) -> None:
    """Nothing was ever differentiated: the loader with most batches is what the script is about."""
    batches: dict[str, int] = {}
    for one in iterations:
        batches[one.loader] = batches.get(one.loader, 0) + one.batches
    main = max(batches, key=lambda key: batches[key])
    for one in iterations:
        if one.loader == main:
            one.role = "train"
