"""The profile: the measurements of a run, and what torch computed in it; no conclusions.

Times named ``t`` or ``*_s`` are seconds; instants count from the run's start on
CLOCK_MONOTONIC. Shares run 0 to 1. ``None`` means "not measured", never zero.
Tables are columns of equal length, so that a long run stays small on disk. What is sampled, what is summed
and what is not kept is written in docs/how-it-works.md, "Which steps are sampled".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .code import FunctionSource, Location
from .device import DeviceFacts
from .instruments import InstrumentCost, InstrumentWindow, Operation, Operator, Series, Stack
from .loops import Blocked, FetchTable, HotFiles, Loader, Loop, Making, Payload, Ranks, RankSteps, Repeats
from .run import Elapsed, Gap, Machine, Process, Run, Trial


@dataclass(frozen=True)
class ScriptSettings:
    """What a script had set when its training began to move.

    ``noticed`` holds what was on during a later backward pass: anomaly, profiler. ``autocast`` also counts
    weights seen to be cast on their way into the loss. ``tracer`` and ``profiler`` name the module set by
    ``sys.settrace`` and ``sys.setprofile``. ``amx`` and ``avx512_bf16`` are abilities of the processor. Of
    the multiplications behind the loss, ``unused_share`` have gradients that reach nothing which an optimizer
    updates.
    """

    pid: int
    anomaly: bool | None = None
    matmul_precision: str | None = None
    cudnn_benchmark: bool | None = None
    deterministic: bool | None = None
    autocast: bool | None = None
    amx: bool | None = None
    avx512_bf16: bool | None = None
    sharing: str | None = None
    tracer: str = ""
    profiler: str = ""
    development_mode: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    noticed: list[str] = field(default_factory=list)
    unused_share: float | None = None


@dataclass(frozen=True)
class Optimizer:
    """An optimizer that stepped. ``fusible``: its class knows ``fused``; ``library``: who wrote it.

    ``closure``: its step was handed one, so that forward passes may run inside of it. ``kernels`` are
    weights of convolutions (wider than one pixel, more than one channel), of which ``kernels_channels_last``
    lie channels last in memory. Of its parameter ``groups``, ``unlike_groups`` have different options; 0 =
    not recorded. ``foreach``: many tensors are updated in one call, which torch does by itself on a GPU.
    """

    pid: int
    name: str
    library: str = ""
    tensors: int = 0
    elements: int = 0
    fused: bool = False
    foreach: bool = False
    fusible: bool = False
    momentum: bool = False
    closure: bool = False
    device: str = ""
    dtype: str = ""
    kernels: int = 0
    kernels_channels_last: int = 0
    file: str = ""
    line: int = 0
    groups: int = 0
    unlike_groups: int = 0


@dataclass(frozen=True)
class DispatchBreakdown:
    """The profiled step of one loop's thread, in seconds; the profiler's own cost is in it.

    ``own_s`` = time of all operators, of which ``large_s`` in calls of 0.2 ms and more, and ``beyond_s``
    beyond 5 us a call. ``short_s`` = pauses between operators under 0.1 ms, ``long_s`` = longer ones. The
    longest operators and pauses are also given one by one, at most eight of each; ``longest_calls_s`` are
    pauses of 0.1 ms and more inside of an optimizer, which are part of ``short_s``. ``backwards`` is how many
    backward passes ran in it, None if not counted; all numbers are those of one of its ``batches``.
    """

    pid: int
    operators: int
    wall_s: float
    cpu_s: float
    own_s: float
    beyond_s: float
    large_s: float
    short_s: float
    long_s: float
    longest_operators_s: list[float] = field(default_factory=list)
    longest_pauses_s: list[float] = field(default_factory=list)
    longest_calls_s: list[float] = field(default_factory=list)
    backwards: int | None = None
    batches: int = 1


@dataclass(frozen=True)
class GradientRows:
    """A matrix of ``rows`` rows and ``elements`` elements that an optimizer updates. After one backward pass
    ``looked`` of its rows were read; ``touched`` of these had a gradient that is not all zeros. On an
    accelerator nothing is read: ``touched`` is how many places looked a row up, and bounds the number."""

    pid: int
    elements: int
    rows: int
    looked: int
    touched: int


@dataclass(frozen=True)
class Padding:
    """Places in sampled batches of sequences, how many of these fill a row's end, and how many of those lie
    beyond the longest row of their batch."""

    loader: str
    batches: int
    places: int
    padded: int
    beyond: int = 0


@dataclass(frozen=True)
class Compilation:
    """What torch.compile had done by ``t``, each a running total: frames, graph breaks, seconds, and CUDA
    graphs ``recorded``, by whomever."""

    pid: int
    t: list[float] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    breaks: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    recorded: list[int | None] = field(default_factory=list)


@dataclass(frozen=True)
class CompilerNote:
    """A "graph break" or a "recompilation", in torch's words: the reason, or the guard that failed last;
    how often it was noted, and the user's line, or function, for which it was."""

    pid: int
    what: str
    reason: str
    count: int = 1
    location: Location | None = None


@dataclass(frozen=True)
class Computing:
    """All of the above, of all training processes."""

    switches: list[ScriptSettings] = field(default_factory=list)
    optimizers: list[Optimizer] = field(default_factory=list)
    anatomies: list[DispatchBreakdown] = field(default_factory=list)
    gradient_rows: list[GradientRows] = field(default_factory=list)
    paddings: list[Padding] = field(default_factory=list)
    compilations: list[Compilation] = field(default_factory=list)
    compiler_notes: list[CompilerNote] = field(default_factory=list)


SCHEMA = "bottleneck-doctor/profile"
SCHEMA_VERSION = 2  # 1 had loops without a loader as flat tables of their own


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
    outside: list[Loop] = field(default_factory=list)
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
    windows: list[InstrumentWindow] = field(default_factory=list)
    ranks: Ranks = field(default_factory=Ranks)
    elsewhere: list[RankSteps] = field(default_factory=list)
    cost: InstrumentCost = field(default_factory=InstrumentCost)
    gaps: list[Gap] = field(default_factory=list)
    elapsed: list[Elapsed] = field(default_factory=list)
    device: DeviceFacts | None = None
    other_devices: list[DeviceFacts] = field(default_factory=list)
    trial: Trial | None = None
    sources: list[FunctionSource] = field(default_factory=list)
