"""How the batches of a loader were made: a table of sampled fetches, and what hooks counted."""

from __future__ import annotations

from dataclasses import dataclass, field


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

    One row per time bucket: counts by class (storage, fault, network, remote, sleep, lock, pipe, poll,
    other) and of samples found running or runnable. A loop that waits in a lock for a thread of its process
    counts as ``made`` while that one runs, else as what that one sleeps in.
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

    ``unpack_cpu_s`` and ``unpacked_bytes``: decompression. ``transforms``: CPU by class of transform.
    ``draw_s`` and ``draw_cpu_s``: choosing the indices of a batch, None where that was not timed;
    ``first_draws_s``: the draws with which each epoch began. ``firstlings``: how many of the first batches
    of an iterable data set could be compared between two workers, and how many of them were equal.
    """

    loader: str
    batches: int = 0
    unpack_cpu_s: float = 0.0
    unpacked_bytes: float = 0.0
    transforms: dict[str, float] = field(default_factory=dict)
    draw_s: float | None = None
    draw_cpu_s: float | None = None
    first_draws_s: list[float] = field(default_factory=list)
    firstlings: tuple[int, int] = (0, 0)
