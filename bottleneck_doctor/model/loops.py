"""Loops over batches: their loaders, how batches were made, tables of steps, ranks that step together.

With the arguments of a DataLoader, of torch or of what wraps it: their order, and which go together.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from .code import Location, SourceCall
from .device import DeviceWindow


@dataclass(frozen=True)
class Loader:
    """A source of batches: a ``torch.utils.data.DataLoader`` or a marked function.

    ``location`` is the user's line that built it, ``through`` names the libraries between, and ``call`` is
    the call itself, where the source could be read and the call builds a loader.
    """

    key: str
    kind: str
    pid: int
    dataset: str = ""
    dataset_kind: str = "map"
    dataset_length: int | None = None
    batch_size: int | None = None
    num_workers: int = 0
    prefetch_factor: int | None = None
    persistent_workers: bool = False
    pin_memory: bool = False
    in_order: bool = True
    sampler: str = ""
    collate: str = ""
    start_method: str | None = None
    batched_getitems: bool = False
    tensor_dataset: bool = False
    arguments: dict[str, str] = field(default_factory=dict)
    location: Location | None = None
    dataset_location: Location | None = None
    through: list[str] = field(default_factory=list)
    call: SourceCall | None = None


@dataclass(frozen=True)
class Epochs:
    """One row per ``iter(loader)``: when, how long building took, how long the first batch."""

    t: list[float] = field(default_factory=list)
    build_s: list[float] = field(default_factory=list)
    first_wait_s: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


GAPS = ("gap_s", "gap_cpu_s", "gap_runq_s", "late_s", "queued_s")  # filled for loops without a loader alone


@dataclass(frozen=True)
class StepTable:
    """Steps of one loop. A row covers ``steps`` consecutive steps and ends at ``t``.

    All seconds are sums over the covered steps. ``wait_s`` includes building iterators; evaluation is not in
    ``wall_s``. Of the loop's thread: ``cpu_s`` is its CPU outside ``next``, ``wait_cpu_s`` inside, ``runq_s``
    the time it was runnable but not running, ``wait_runq_s`` of that inside ``next``; ``process_cpu_s`` is
    the CPU of every thread of the process. ``collect_s`` is garbage collection. ``exchange_s`` is time asleep
    in exchanges with other ranks; ``backward_s`` holds none of it. ``set_aside`` is "" or why the row does
    not count (instrument, stacks, unfinished). ``system_s`` is the kernel's part of ``process_cpu_s``,
    ``minor_faults`` the pages that were newly mapped. ``ready`` = batches finished and waiting when the loop
    asked, None for one process.

    The last five columns are only filled for a loop without a loader, whose ``wait_s`` is 0 and whose
    ``cpu_s`` and ``runq_s`` are those of the whole step until the analysis has found where it gets its batch.
    ``gap_s`` is the time from the backward pass, or the optimizer step behind it, to the next call of a
    module, of which ``gap_cpu_s`` on the CPU and ``gap_runq_s`` waiting for one; None where no module was
    called. ``late_s`` is the time from that module's return to the next backward pass, ``queued_s`` the time
    that the thread waited in queues, and for events and futures.
    """

    t: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    epoch: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    wait_s: list[float] = field(default_factory=list)
    cpu_s: list[float | None] = field(default_factory=list)
    wait_cpu_s: list[float | None] = field(default_factory=list)
    process_cpu_s: list[float | None] = field(default_factory=list)
    runq_s: list[float | None] = field(default_factory=list)
    wait_runq_s: list[float | None] = field(default_factory=list)
    backward_s: list[float | None] = field(default_factory=list)
    optimizer_s: list[float | None] = field(default_factory=list)
    checkpoint_s: list[float] = field(default_factory=list)
    logging_s: list[float] = field(default_factory=list)
    collect_s: list[float] = field(default_factory=list)
    copy_s: list[float] = field(default_factory=list)
    ready: list[int | None] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    exchange_s: list[float | None] = field(default_factory=list)
    system_s: list[float | None] = field(default_factory=list)
    minor_faults: list[int | None] = field(default_factory=list)
    gap_s: list[float | None] = field(default_factory=list)
    gap_cpu_s: list[float | None] = field(default_factory=list)
    gap_runq_s: list[float | None] = field(default_factory=list)
    late_s: list[float | None] = field(default_factory=list)
    queued_s: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Feed:
    """Lines ``first`` to ``last`` of a loop that feed what is differentiated, by their names; ``needs`` are
    the places, among all such, of those that they use themselves. ``calls_too`` are
    those that call what these lines hand to a function: ``rollout(policy, games)`` calls the policy, too."""

    first: int
    last: int
    needs: list[int] = field(default_factory=list)
    calls_too: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class LoopBody:
    """The innermost loop around the training, as its source tells it. The last of ``feeds`` is the statement
    that trains; the loop's own head (``for x, y in source``) is one of them. ``outer`` is the loop around it,
    in this or in the calling function."""

    file: str
    function: str
    first: int
    last: int
    feeds: list[Feed] = field(default_factory=list)
    outer: LoopBody | None = None


@dataclass(frozen=True)
class Loop:
    """A thread that consumes a loader; with ``loader`` "", one that trains without any, whose steps are its
    backward passes. role: train, evaluation, prefetch (a background thread).

    Of ``forwards`` forward passes that were sampled, ``recorded_forwards`` kept what a backward pass needs.
    ``body`` is the innermost loop around the backward pass in the source.
    """

    loader: str
    pid: int
    thread: int
    role: str
    steps: int
    wall_s: float
    wait_s: float
    epochs: Epochs
    table: StepTable
    backwards: int = 0
    optimizer_steps: int = 0
    forwards: int = 0
    recorded_forwards: int = 0
    body: LoopBody | None = None


@dataclass(frozen=True)
class Parallel:
    """A model wrapped for several ranks (kind ``ddp``, or ``fsdp`` and DeepSpeed's ``zero`` where each has a
    part of it), or for several devices of one process (``dp``).

    A sharded model's ``gradient_bytes`` are all ranks', its ``arguments`` of all its ``groups`` that exchange
    at one time; ``resharded`` those that drop gathered parameters after the forward pass.
    ``bucket_bytes`` are the buckets in which gradients travel, as the wrapper rebuilt them; ``unused_bytes``
    the gradients that its newest sampled pass left out; both None until the training had run for a while.
    """

    pid: int
    kind: str
    file: str = ""
    line: int = 0
    function: str = ""
    gradient_bytes: int = 0
    devices: int = 1
    world_size: int = 1
    backend: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    bucket_bytes: list[int] | None = None
    unused_bytes: int | None = None
    comm_hook: str = ""


@dataclass(frozen=True)
class Passes:
    """Sampled backward passes of one process; medians, in seconds.

    ``local_s`` is the time until this rank's own gradients were finished, ``exchange_s`` what it then slept
    until the pass returned, ``exchange_cpu_s`` its CPU time in between (copying gradients back).
    ``shared`` = gradients were exchanged; ``in_optimizer`` counts the passes that an optimizer called for
    itself (a closure); ``per_step`` = such passes, shared or not, per optimizer step.
    """

    pid: int
    shared: bool
    count: int
    in_optimizer: int
    per_step: float
    local_s: float
    exchange_s: float
    exchange_cpu_s: float


@dataclass(frozen=True)
class Ranks:
    """All of it."""

    parallel: list[Parallel] = field(default_factory=list)
    passes: list[Passes] = field(default_factory=list)


@dataclass(frozen=True)
class RankSteps:
    """The steps of one rank, in columns of equal length.

    It ``ran`` so many steps, the last of which may have no row. A row covers ``steps`` steps; seconds are
    sums over them: all of it, waiting for data, ready without a core, asleep in exchanges. ``aside`` rows do
    not count. ``pid`` is above all real ones where it comes from another profile, at ``file``. Of the time
    of these steps on its ``host``: cores that its job and others kept busy, and the share of periods in which
    its quota was used up; None where that was not counted. ``window`` are its device's profiled steps.
    """

    pid: int
    rank: int | None = None
    host: str = ""
    file: str = ""
    ran: int = 0
    steps: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    wait_s: list[float] = field(default_factory=list)
    runq_s: list[float] = field(default_factory=list)
    exchange_s: list[float] = field(default_factory=list)
    aside: list[bool] = field(default_factory=list)
    job_cores: float | None = None
    foreign_cores: float | None = None
    throttled: float | None = None
    window: DeviceWindow | None = None


LATE_FOR = {
    "data": "waiting for data",
    "quota": "without a core, its CPU quota used up",
    "cores": "ready without a core",
    "work": "in work of its own",
}  # what most of a late rank's time went into, as text


@dataclass(frozen=True)
class SlowRank:
    """A rank that is late step after step. ``beyond_s``: seconds per step outside of exchanges, beyond the
    median rank's. ``cause`` is what most of these, ``part_s``, went into (``LATE_FOR``)."""

    rank: RankSteps
    beyond_s: float
    cause: str
    part_s: float


# Parameters that may come without their names, in order [torch.utils.data.DataLoader]
POSITIONS = tuple(
    "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last timeout "
    "worker_init_fn multiprocessing_context generator".split()
)
# what only a loader with workers takes -> what it is without
NEEDS_WORKERS = {
    "prefetch_factor": "None",
    "persistent_workers": "False",
    "multiprocessing_context": "None",
    "timeout": "0",
}
# What TrainingArguments calls them [transformers.TrainingArguments]
TRAINER_NAMES = {
    name: f"dataloader_{name}"
    for name in ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory", "drop_last")
} | {"batch_size": "per_device_train_batch_size"}


def without_workers(wanted: dict[str, str], present: Container[str | None]) -> dict[str, str]:
    """What is wanted; where that takes the workers away, what needs some and is ``present`` goes, too."""
    if wanted.get("num_workers") != "0":
        return wanted
    return wanted | {name: value for name, value in NEEDS_WORKERS.items() if name in present}


@dataclass(frozen=True)
class FetchTable:
    """A uniform sample of the batches of one loader, timed in the fetching thread.

    Per batch: ``wall_s`` = ``cpu_s`` + ``runq_s`` + blocked. ``cpu_s`` is the fetching thread's,
    ``other_cpu_s`` that of the process's other threads in that time; ``system_s`` is the kernel part
    of ``cpu_s``. ``collate_s``/``collate_cpu_s`` and ``decode_s`` (image, audio and video decoders, CPU)
    lie inside. Bytes and faults are the kernel's counts for the thread; ``minor_faults`` are pages that were
    newly mapped, ``major_faults`` those that had to be read first. ``containers`` are the HDF5, zip, tar
    and Parquet files opened, ``container_s``/``container_cpu_s`` what opening them took.
    """

    loader: str
    seen: int = 0
    t: list[float] = field(default_factory=list)
    worker: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    other_cpu_s: list[float] = field(default_factory=list)
    system_s: list[float] = field(default_factory=list)
    runq_s: list[float | None] = field(default_factory=list)
    storage_bytes: list[int | None] = field(default_factory=list)
    read_bytes: list[int | None] = field(default_factory=list)
    reads: list[int | None] = field(default_factory=list)
    major_faults: list[int] = field(default_factory=list)
    collate_s: list[float] = field(default_factory=list)
    collate_cpu_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    opens: list[int | None] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    containers: list[int | None] = field(default_factory=list)
    container_s: list[float | None] = field(default_factory=list)
    container_cpu_s: list[float | None] = field(default_factory=list)
    minor_faults: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class Payload:
    """What one batch of a loader is made of and what moving it cost. Means over sampled batches.

    ``element_bytes`` is of an element of its largest tensor; 0 in profiles that do not know it.
    """

    loader: str
    batches: int
    tensors: float = 0.0
    tensor_bytes: float = 0.0
    other_bytes: float = 0.0
    pipe_bytes: float = 0.0
    serialise_cpu_s: float = 0.0
    element_bytes: float = 0.0


@dataclass(frozen=True)
class Repeats:
    """The same dataset index seen in several epochs: did it give the same sample?"""

    loader: str
    compared: int
    equal: int
    sample_bytes: float = 0.0


@dataclass(frozen=True)
class Blocked:
    """What the fetching threads of one loader slept in, sampled from outside while inside a fetch; or, with
    no loader, what the training loop's thread of process ``pid`` did at any time, waits for workers included.

    One row per time bucket: counts by class (storage, fault, written, network, remote, sleep, lock, pipe,
    poll, other) and of samples found running or runnable. A loop that waits in a lock for a thread of its
    process counts as ``made`` while that one runs, else as what that one sleeps in.
    """

    loader: str
    t: list[float] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    pid: int = 0


@dataclass(frozen=True)
class HotFiles:
    """Files that a loader's fetches opened or read: a sample of them and where they live.

    ``bytes`` is their size all together, 0 unless known of each. ``direct`` says that they were opened
    past the page cache.
    """

    loader: str
    files: int
    bytes: int
    suffixes: dict[str, int] = field(default_factory=dict)
    mounts: dict[str, int] = field(default_factory=dict)
    rotational: bool | None = None
    direct: bool = False


@dataclass(frozen=True)
class Making:
    """Means per batch in seconds; ``batches`` is how many were sampled.

    ``transforms``: CPU by class of transform. ``draw_s`` and ``draw_cpu_s``: choosing the indices of a batch,
    None where that was not timed; ``first_draws_s``: the draws with which each epoch began. ``firstlings``:
    how many of the first batches of an iterable data set could be compared between two workers, and how many
    of them were equal.
    """

    loader: str
    batches: int = 0
    transforms: dict[str, float] = field(default_factory=dict)
    draw_s: float | None = None
    draw_cpu_s: float | None = None
    first_draws_s: list[float] = field(default_factory=list)
    firstlings: tuple[int, int] = (0, 0)
