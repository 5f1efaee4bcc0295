"""The run: its start, its state and its end, how its processes spent their time, and the trial if any."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .instruments import InstrumentWindow, Sample, Stack


@dataclass(frozen=True)
class Gap:
    """Something that could not be measured: what, why, and how to allow it."""

    what: str
    why: str
    do: str = ""


@dataclass(frozen=True)
class Crash:
    """The exception that ended process ``pid``: its class, the innermost line of the script's own code, the
    module that it ``lacks``, the path of the interpreter, and whose ``memory`` was short: host, device, or ""
    for neither."""

    pid: int
    error: str = ""
    file: str = ""
    line: int = 0
    lacks: str = ""
    python: str = ""
    memory: str = ""


@dataclass(frozen=True)
class RunEnd:
    """How far a run came, and what ended it: training ``steps`` of one process, ``batches`` of any loader,
    Python ``processes``. ``memory``: bytes by their names, if memory was short or the run was killed."""

    steps: int = 0
    batches: int = 0
    processes: int = 0
    signal: int | None = None
    crash: Crash | None = None
    memory: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """How the training was started and how it ended; ``pid`` is the process that was launched or, if
    ``attached``, the running one that bdoc attached to. ``trained`` counts
    the training steps of the process that made most; of several crashes, the first is kept."""

    command: list[str]
    script: str | None
    cwd: str
    started_at: str
    duration_s: float
    exit_status: int
    signal: int | None = None
    stopped_by: str | None = None
    bdoc: str = ""
    pid: int | None = None
    attached: bool = False
    trained: int = 0
    crash: Crash | None = None


@dataclass(frozen=True)
class Machine:
    """What the job was given. ``cores`` = min(affinity, cgroup quota), never the box's count;
    ``physical_cores`` of those it may run on, hardware threads of one core counted once; ``fault_s``
    and ``handed_s`` = CPU seconds to map a page, and to hand a descriptor to another process."""

    host: str
    kernel: str
    cpu: str
    cores_online: int
    cores: float
    affinity_cores: int | None = None
    quota_cores: float | None = None
    physical_cores: int | None = None
    memory_bytes: int | None = None
    memory_limit_bytes: int | None = None
    shm_free_bytes: int | None = None
    fault_s: float | None = None
    handed_s: float | None = None
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
    rank: int | None = None
    world_size: int | None = None
    loader: str | None = None
    python: str = ""
    torch: str | None = None
    torch_threads: int | None = None
    device: str | None = None


@dataclass(frozen=True)
class Elapsed:
    """Seconds that do not overlap, and instants.

    ``preparing_s`` goes until the training begins at ``first_s``; ``training_s`` and ``evaluation_s`` are in
    their loops, ``starting_s`` and ``starting_evaluation_s`` what beginning these with new workers takes
    beyond a usual batch (``first_start_s`` of it at the first beginning), ``stopping_s`` waiting for workers
    to end, ``checkpoint_s`` saving, in loops or not, ``profiled_s`` steps under torch.profiler, ``between_s``
    all else until ``last_s``, the end of the last loop. ``beginnings`` counts those with workers. At
    ``exit_s`` the interpreter began to shut down; None if no agent reported it.
    """

    pid: int
    first_s: float
    last_s: float
    exit_s: float | None = None
    preparing_s: float = 0.0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    starting_s: float = 0.0
    starting_evaluation_s: float = 0.0
    first_start_s: float = 0.0
    stopping_s: float = 0.0
    checkpoint_s: float = 0.0
    profiled_s: float = 0.0
    between_s: float = 0.0
    beginnings: int = 0


ENVIRONMENT = "environment"  # the treatment that is no hook: its options are variables, set before the start


@dataclass(frozen=True)
class Treatment:
    """What applies a remedy without an edit: ``name`` is that of a function in agent/trial, or
    ``ENVIRONMENT``; ``options`` are plain JSON values, and mean what that file says they mean."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """The order of one trial to the agent. ``losses``: how many of the first losses, and of the first
    batches, are recorded; ``seed``: the random seed, unless the script sets one."""

    treatments: list[Treatment] = field(default_factory=list)
    losses: int = 0
    seed: int | None = None


@dataclass(frozen=True)
class Treated:
    """The outcome of one treatment in one process; ``why`` it was not applied, "" if it was."""

    name: str
    pid: int
    why: str = ""


@dataclass(frozen=True)
class Losses:
    """The first losses of one training process, each as ``float.hex`` or "nan" or "inf", in order, and the
    checksums of the batches that its loop was given, in order."""

    pid: int
    rank: int | None = None
    values: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Trial:
    """A trial: its order, the treatments applied, and what was recorded."""

    order: Order = field(default_factory=Order)
    treated: list[Treated] = field(default_factory=list)
    losses: list[Losses] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """``steps`` batches arrived, ``trained`` of them were trained on, ``epoch_at`` before the newest epoch;
    ``elsewhere`` ranks train with it that are in no process of this run; instants are CLOCK_MONOTONIC."""

    pid: int
    steps: int
    trained: int
    wait_ns: int
    first_ns: int
    last_ns: int
    windows: int = 0
    profiled: bool = False  # a window of torch.profiler is open
    epoch_at: int = 0
    elsewhere: int = 0


SCHEMA = "bottleneck-doctor/watch"
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Lifetime:
    """A process; when it began (clock ticks since boot) sets it apart from a later one with its pid."""

    pid: int
    began: int


@dataclass(frozen=True)
class Announcement:
    """What a run writes into its folder so that other processes find it. Its pids are valid in ``place``, a
    boot and a pid namespace; ``training`` is None until the script was started."""

    supervisor: Lifetime
    place: str
    command: list[str]
    script: str | None
    cwd: str
    started_at: str
    origin_ns: int
    output: str
    training: Lifetime | None = None
    max_steps: int | None = None
    max_seconds: float | None = None
    bdoc: str = ""


@dataclass(frozen=True)
class Ending:
    """How the training ended: 128+N is death by signal N; ``stopped_by`` names the limit that ended it."""

    exit_status: int
    signal: int | None = None
    stopped_by: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """What the supervisor has measured so far, without the agents' rows, which lie in the run folder."""

    run: Run
    machine: Machine
    origin_ns: int  # CLOCK_MONOTONIC
    samples: list[Sample] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    windows: list[InstrumentWindow] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    supervisor_cpu_s: float | None = None


@dataclass(frozen=True)
class LiveView:
    """A run at one moment. ``state``: starting, running, stalled, stopped, finishing, ended, killed (bdoc
    itself was killed). ``step_s`` and ``wait_share`` are since the view before."""

    announcement: Announcement
    state: str
    elapsed_s: float
    steps: int = 0
    trained: int = 0
    ranks: int = 0
    silent_s: float = 0.0  # since the newest batch
    step_s: float | None = None
    wait_share: float | None = None
    ending: Ending | None = None
    profile: str | None = None  # its path, once it is written
    survivor: int | None = None  # the training's pid, where it outlived bdoc
    note: str = ""  # why there is no report yet
