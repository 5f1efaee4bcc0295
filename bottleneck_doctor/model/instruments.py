"""What instruments measured: samples, series, stacks, operators, and their cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .code import Location


@dataclass(frozen=True)
class Sample:
    """One reading of one sensor. ``t_ns`` is CLOCK_MONOTONIC; cumulative counters stay cumulative."""

    t_ns: int
    sensor: str
    values: Mapping[str, float | str]


@dataclass(frozen=True)
class Capability:
    """Whether something can be measured here: if not, why, and the command that allows it."""

    name: str
    available: bool
    detail: str
    do: str = ""


@dataclass(frozen=True)
class Operation:
    """Calls of one kind from one place in the loop: checkpoint, logging, flush, sync, collection, copy.

    A ``flush`` forces a file to the disk that is neither a checkpoint nor a log. ``module`` is the one for
    which a sharded model communicated. ``events`` holds [t, duration] of at most 256 calls, the longest kept.
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
    module: str = ""
    events: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class Stack:
    """Samples of one call path, outermost first; frames are ``function (file:line)``.

    ``count`` includes samples of a thread that slept. ``running``: of as many samples, taken separately, how
    many found it running or runnable; ``holding``: of as many more, how many found it with the GIL, in
    Python and not in an operator. None where that was not sampled.
    """

    pid: int
    role: str
    thread: str
    frames: list[str]
    count: int
    running: int | None = None
    holding: int | None = None


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
class InstrumentWindow:
    """When a disturbing instrument ran: torch.profiler or py-spy."""

    instrument: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class InstrumentCost:
    """What instrumentation cost: of the training's thread, by the agent's own count (seconds in all, and per
    step); CPU seconds of the supervisor and of py-spy while it ran; seconds before its start and after its
    end."""

    agent_s_per_step: float | None = None
    supervisor_cpu_s: float | None = None
    agent_s: float | None = None
    stacks_cpu_s: float = 0.0
    before_s: float | None = None
    after_s: float | None = None
