"""A running job: what its agents post, what its supervisor announces, what a watcher is shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from .instruments import InstrumentWindow, Sample, Stack
from .run import Gap, Machine


@dataclass(frozen=True)
class Progress:
    """``steps`` batches arrived, ``trained`` of them were trained on, ``epoch_at`` before the newest epoch;
    instants are CLOCK_MONOTONIC."""

    pid: int
    steps: int
    trained: int
    wait_ns: int
    first_ns: int
    last_ns: int
    windows: int = 0
    profiled: bool = False  # a window of torch.profiler is open
    epoch_at: int = 0


SCHEMA = "bottleneck-doctor/watch"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Lifetime:
    """A process, told from a later one with the same pid by when it began (clock ticks since boot)."""

    pid: int
    began: int


@dataclass(frozen=True)
class Announcement:
    """What a run leaves in its folder for whoever looks for it. ``place`` is the boot and the namespace in
    which its pids mean anything; ``training`` is None until the script was started."""

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
class Handover:
    """All that the supervisor alone knows, as of ``t_ns`` (CLOCK_MONOTONIC)."""

    t_ns: int
    machine: Machine
    samples: list[Sample] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    windows: list[InstrumentWindow] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    supervisor_cpu_s: float | None = None


@dataclass(frozen=True)
class PacePoint:
    """One point of the loop's history: seconds per step and the share of them spent waiting for data."""

    step_s: float | None
    wait_share: float | None


@dataclass(frozen=True)
class Surroundings:
    """The machine in the last seconds: cores in use, pressure as shares of time (PSI's "some"), GPUs."""

    cores: float | None = None
    job_cores: float | None = None
    foreign_cores: float | None = None
    pressure: dict[str, float] = field(default_factory=dict)
    gpu_busy: list[float] = field(default_factory=list)
    gpu_memory: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class LiveView:
    """What a watcher sees at one moment. ``state``: starting, running, stalled, stopped, finishing, ended,
    killed (bdoc itself, not by its own doing). ``now`` is of the last seconds, ``history`` of minutes."""

    announcement: Announcement
    state: str
    elapsed_s: float
    steps: int = 0
    trained: int = 0
    ranks: int = 0
    silent_s: float = 0.0  # since the newest batch
    now: PacePoint = field(default_factory=lambda: PacePoint(None, None))
    history: list[PacePoint] = field(default_factory=list)
    around: Surroundings = field(default_factory=Surroundings)
    ending: Ending | None = None
    profile: str | None = None  # where it lies, once it does
    enough_steps: int = 0  # for a verdict
    judging: bool = False  # a verdict is being made
    survivor: int | None = None  # the training's pid, where it outlived bdoc
    unjudged: str = ""  # why there is no verdict, where that is not for want of steps
