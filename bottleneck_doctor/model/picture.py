"""Data of a report's charts: the course of the run, which thread waits for which, sampled Python stacks.

Instants are seconds from the run's start. Everything is thinned to what a screen can show, so that a page
about a million steps is no larger than one about a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Curve:
    """One quantity over the run; None where it was not measured.

    ``name`` ends in its unit, as metrics do (``step_time_s``, ``job_cores``, ``gpu_busy_share``); ``group``
    names the plot that it belongs to: step, wait, cpu, gpu, io, pressure or memory.
    """

    name: str
    group: str
    t: list[float] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Mark:
    """A named stretch of the run. kind: warm-up, phase, evaluation, checkpoint, instrument."""

    kind: str
    begin_s: float
    end_s: float
    label: str = ""


@dataclass(frozen=True)
class Timeline:
    """The run from its start to its end."""

    duration_s: float
    curves: list[Curve] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True)
class Pieces:
    """What the lanes are made of, one row each, in columns of equal length.

    ``lane`` counts from 0, the training loop; ``what`` is one of ``LOOP_PIECES``, in a worker's lane of
    ``WORKER_PIECES``. A loop that makes its batches itself has no workers, and its waits are divided as a
    worker's fetches are. ``batch`` numbers the batch that it is about, alike in a worker's lane and in the
    loop's, from 0 at the loop's first; None if unknown. Pieces of a lane do not overlap; they are in order of
    lane and time. "sync" is waiting for the device, "unseen" a stretch that was not sampled.
    """

    lane: list[int] = field(default_factory=list)
    begin_s: list[float] = field(default_factory=list)
    length_s: list[float] = field(default_factory=list)
    what: list[str] = field(default_factory=list)
    batch: list[int | None] = field(default_factory=list)


LOOP_PIECES = (
    "wait", "compute", "backward", "optimizer", "copy", "sync", "exchange", "checkpoint", "logging",
    "collect", "evaluation", "unseen",
)  # fmt: skip
WORKER_PIECES = ("cpu", "storage", "network", "blocked", "queue", "collate", "hand over", "idle", "unseen")


@dataclass(frozen=True)
class Lanes:
    """Some consecutive steps of the training loop, and what each loader worker did in that time.

    ``workers`` are the numbers of lanes 1, 2, ...; ``wait_share`` is the data wait of these steps, to be
    compared with the steady window's. Kernel accounting gives lengths of a fetch's parts, not their order:
    they stand in the order of ``WORKER_PIECES``. A fetch under way at either end is drawn whole.
    """

    begin_s: float
    end_s: float
    workers: list[int]
    steps: int
    wait_share: float
    pieces: Pieces = field(default_factory=Pieces)


@dataclass(frozen=True)
class CallPath:
    """Samples of one call path, outermost frame first, each ``function (file:line)``.

    ``running``: of as many samples, taken separately, how many found it running or runnable; None where that
    was not sampled.
    """

    frames: list[str]
    count: int
    running: int | None = None


@dataclass(frozen=True)
class CallPaths:
    """All call paths of one role: the training thread (trainer), the workers (worker) or others (other)."""

    role: str
    samples: int
    paths: list[CallPath] = field(default_factory=list)


@dataclass(frozen=True)
class RankMap:
    """Ranks over time: what each took outside of exchanges, over what the median rank took.

    ``edges`` are the steps between which the columns of ``ratio`` lie, one row for each of ``names``, and
    ``ends_s`` when they ended, in seconds since the run began; None where steps were set aside. ``left_out``
    ranks are nearer to the median one than all that are shown.
    """

    names: list[str]
    edges: list[int]
    ends_s: list[float]
    ratio: list[list[float | None]]
    left_out: int = 0


@dataclass(frozen=True)
class Picture:
    """Everything that can be drawn of a run; empty where nothing was measured."""

    timeline: Timeline
    lanes: Lanes | None = None
    stacks: list[CallPaths] = field(default_factory=list)
    ranks: RankMap | None = None


@dataclass(frozen=True)
class Spans:
    """What a loop's thread was seen in, in order of begin; one may lie inside another.

    ``what``: wait (in ``next``), opening (building an iterator), backward, optimizer, copy, sync (waiting for
    the device), exchange, checkpoint, logging, collect, evaluation. ``batch`` is the number of the batch that
    a wait has got, counted from 0 over the whole loop: where it jumps, the steps between were not sampled.
    """

    t: list[float] = field(default_factory=list)
    length_s: list[float] = field(default_factory=list)
    what: list[str] = field(default_factory=list)
    batch: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Fetches:
    """Fetches by kernel accounting, in order of begin; columns are those of ``FetchTable``.

    ``worker`` is -1 for the loop's own process. ``number`` counts a worker process's fetches from 1: where it
    jumps, some were not sampled, and where it falls, a new process has begun. ``batch`` is the batch made,
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
    """The steps of one loop between two arrivals. ``looks`` of its ``steps`` were sampled.

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
