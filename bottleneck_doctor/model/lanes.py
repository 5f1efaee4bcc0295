"""Some consecutive steps of a loop as they were: what its thread did, and who made its batches meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Spans:
    """What a loop's thread was seen in, in order of begin; one may lie inside another.

    ``what``: wait (in ``next``), opening (building an iterator), backward, optimizer, copy, sync (waiting for
    the device), exchange, checkpoint, logging, collect, evaluation. ``batch`` is the number of the batch that
    a wait has got, counted from 0 over the whole loop: where it jumps, the steps between were not looked at.
    """

    t: list[float] = field(default_factory=list)
    length_s: list[float] = field(default_factory=list)
    what: list[str] = field(default_factory=list)
    batch: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Fetches:
    """Fetches by the kernel's books, in order of begin; columns are those of ``FetchTable``.

    ``worker`` is -1 for the loop's own process. ``number`` counts a worker process's fetches from 1: where it
    jumps, some were not looked at, and where it falls, a new process has begun. ``batch`` is the batch made,
    numbered as in ``Spans``; None where the order in which batches are dealt out is not certain.
    """

    t: list[float] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    other_cpu_s: list[float] = field(default_factory=list)
    runq_s: list[float | None] = field(default_factory=list)
    collate_s: list[float] = field(default_factory=list)
    collate_cpu_s: list[float] = field(default_factory=list)
    batch: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Excerpt:
    """The steps of one loop between two arrivals. ``looks`` of its ``steps`` were looked at closely.

    ``fetches`` are those under way in that time, and of each worker the one before and the one after.
    """

    loader: str
    pid: int
    thread: int
    start_s: float
    end_s: float
    steps: int
    looks: int
    wait_s: float
    spans: Spans = field(default_factory=Spans)
    fetches: Fetches = field(default_factory=Fetches)
