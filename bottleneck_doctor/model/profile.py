"""The profile: facts that a run leaves behind, never conclusions.

Times named ``t`` or ``*_s`` are seconds; instants count from the run's start on
CLOCK_MONOTONIC. Shares run 0 to 1. ``None`` means "not measured", never zero.
Tables are columns of equal length, so that a long run stays small on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .calibration import Calibration
from .call import Call
from .computing import Computing
from .device import DeviceFacts
from .making import Making
from .ranks import Ranks
from .startup import Startup

SCHEMA = "bottleneck-doctor/profile"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Location:
    """A place in the user's code."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class Gap:
    """Something that could not be measured: what, why, and how to allow it."""

    what: str
    why: str
    do: str = ""


@dataclass(frozen=True)
class Run:
    """How the training was started and how it ended."""

    command: list[str]
    script: str | None
    cwd: str
    started_at: str
    duration_s: float
    exit_status: int
    signal: int | None = None
    stopped_by: str | None = None
    bdoc: str = ""


@dataclass(frozen=True)
class Machine:
    """What the job was given. ``cores`` = min(affinity, cgroup quota), never the box's count."""

    host: str
    kernel: str
    cpu: str
    cores_online: int
    cores: float
    affinity_cores: int | None = None
    quota_cores: float | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    shm_free_bytes: int | None = None
    numa_nodes: int | None = None
    gpus: list[str] = field(default_factory=list)
    read_limit_bytes_per_s: float | None = None
    read_limit_iops: float | None = None


@dataclass(frozen=True)
class Process:
    """One Python process of the tree. role: trainer, worker or other (launchers, servers)."""

    pid: int
    ppid: int
    role: str
    started_s: float
    ended_s: float | None = None
    rank: int | None = None
    world_size: int | None = None
    loader: str | None = None
    worker: int | None = None
    python: str = ""
    torch: str | None = None
    torch_threads: int | None = None
    device: str | None = None
    rows: int = 0
    dropped: int = 0
    agent_s: float = 0.0
    torch_s: float | None = None
    executable: str = ""


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
    call: Call | None = None


@dataclass(frozen=True)
class Epochs:
    """One row per ``iter(loader)``: when, how long building took, how long the first batch."""

    t: list[float] = field(default_factory=list)
    build_s: list[float] = field(default_factory=list)
    first_wait_s: list[float] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class StepTable:
    """Steps of one loop. A row covers ``steps`` consecutive steps and ends at ``t``.

    All seconds are sums over the covered steps. ``wait_s`` includes building iterators; evaluation is not in
    ``wall_s``. Of the loop's thread: ``cpu_s`` is its CPU outside ``next``, ``wait_cpu_s`` inside,
    ``runq_s`` the time it was runnable but not running, ``wait_runq_s`` of that inside ``next``;
    ``process_cpu_s`` is the CPU of every thread of
    the process. ``collect_s`` is garbage collection. ``exchange_s`` is time asleep in exchanges with other
    ranks; ``backward_s`` holds none of it.
    ``set_aside`` is "" or why the row does not count (instrument, unfinished).
    ``ready`` = batches finished and waiting when the loop asked, None for one process.
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


@dataclass(frozen=True)
class Loop:
    """A thread that consumes a loader. role: train, evaluation, prefetch (a background thread).

    Of ``forwards`` forward passes that were looked at, ``recorded_forwards`` kept what a backward pass needs.
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


@dataclass(frozen=True)
class FetchTable:
    """A uniform sample of the batches of one loader, as the fetching thread lived them.

    Per batch: ``wall_s`` = ``cpu_s`` + ``runq_s`` + blocked. ``cpu_s`` is the fetching thread's,
    ``other_cpu_s`` what the process's other threads burnt meanwhile; ``system_s`` is the kernel part
    of ``cpu_s``. ``collate_s``/``collate_cpu_s`` and ``decode_s`` (image, audio and video decoders, CPU)
    lie inside. Bytes and faults are the kernel's counts for the thread. ``containers`` are the HDF5, zip, tar
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


@dataclass(frozen=True)
class Payload:
    """What one batch of a loader is made of and what moving it cost. Means over sampled batches."""

    loader: str
    batches: int
    tensors: float = 0.0
    tensor_bytes: float = 0.0
    other_bytes: float = 0.0
    pipe_bytes: float = 0.0
    serialise_cpu_s: float = 0.0


@dataclass(frozen=True)
class Repeats:
    """The same dataset index seen in several epochs: did it give the same sample?"""

    loader: str
    indices: int
    compared: int
    equal: int
    sample_bytes: float = 0.0


@dataclass(frozen=True)
class Blocked:
    """What the fetching threads of one loader slept in, sampled from outside while inside a fetch.

    One row per time bucket: counts by class (storage, fault, network, remote, sleep, lock, pipe, poll,
    other) and of samples found running or runnable. ``channels`` names the wait channels seen.
    """

    loader: str
    t: list[float] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)
    channels: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class HotFiles:
    """Files that a loader's fetches opened or read: a sample of them and where they live.

    ``bytes`` is their size all together, 0 unless known of each. ``paths`` are some of them as the training
    named them, kept until calibrating is over; ``direct`` says that they were opened past the page cache;
    ``decoders`` are the modules whose decoders ran.
    """

    loader: str
    files: int
    bytes: int
    suffixes: dict[str, int] = field(default_factory=dict)
    mounts: dict[str, int] = field(default_factory=dict)
    example: str = ""
    rotational: bool | None = None
    paths: list[str] = field(default_factory=list)
    direct: bool = False
    decoders: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Operation:
    """Calls of one kind from one place in the loop: checkpoint, logging, sync, collection, copy.

    ``events`` holds [t, duration] of at most 256 calls, the longest kept.
    """

    kind: str
    pid: int
    thread: int
    name: str
    count: int
    total_s: float
    cpu_s: float
    max_s: float
    location: Location | None = None
    bytes: int = 0
    events: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Outside:
    """A loop whose thread uses no loader: time between an optimizer step and the next forward pass.

    A row covers ``steps`` steps and ends at ``t``; ``gap_s`` is that time summed over them, of which
    ``gap_cpu_s`` on the CPU and ``gap_runq_s`` waiting for one; ``cpu_s`` and ``runq_s`` are the same for the
    whole steps; ``exchange_s`` is time asleep in exchanges with other ranks.
    """

    pid: int
    thread: int
    total: int
    t: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    gap_s: list[float] = field(default_factory=list)
    gap_cpu_s: list[float] = field(default_factory=list)
    gap_runq_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    runq_s: list[float] = field(default_factory=list)
    exchange_s: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Stack:
    """Samples of one call path, outermost first; frames are ``function (file:line)``.

    ``count`` includes samples of a thread that slept. ``running`` is how many samples, of as many taken
    apart from these, found it running or runnable; None where that was not seen.
    """

    pid: int
    role: str
    thread: str
    frames: list[str]
    count: int
    running: int | None = None


@dataclass(frozen=True)
class Operator:
    """One row of a torch.profiler window: self CPU time per profiled step."""

    name: str
    calls: float
    self_cpu_s: float
    self_device_s: float = 0.0


@dataclass(frozen=True)
class Series:
    """Samples of the machine and of the job, downsampled to one time axis."""

    t: list[float] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """When a disturbing instrument ran: torch.profiler or py-spy."""

    instrument: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Cost:
    """What instrumentation cost: agent seconds per step in the training thread, supervisor CPU."""

    agent_s_per_step: float | None = None
    supervisor_cpu_s: float | None = None


@dataclass(frozen=True)
class Profile:
    """Everything that one ``bdoc run`` measured."""

    run: Run
    machine: Machine
    schema: str = SCHEMA
    schema_version: int = SCHEMA_VERSION
    processes: list[Process] = field(default_factory=list)
    loaders: list[Loader] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    outside: list[Outside] = field(default_factory=list)
    fetches: list[FetchTable] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)
    repeats: list[Repeats] = field(default_factory=list)
    makings: list[Making] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    hot_files: list[HotFiles] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    computing: Computing = field(default_factory=Computing)
    series: Series = field(default_factory=Series)
    windows: list[Window] = field(default_factory=list)
    ranks: Ranks = field(default_factory=Ranks)
    cost: Cost = field(default_factory=Cost)
    calibrations: list[Calibration] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    startups: list[Startup] = field(default_factory=list)
    device: DeviceFacts | None = None
