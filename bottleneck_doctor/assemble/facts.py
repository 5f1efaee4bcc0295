"""The facts that agents write, each kind with its keys and their types; some are the profile's own records.

A test holds the agent to these. A key that is missing, or whose value is of another type, has its default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar, get_type_hints

from ..model.codec import as_type
from ..model.instruments import Operator
from ..model.loops import Loader, Parallel
from ..model.profile import DispatchBreakdown, GradientRows, Optimizer, ScriptSettings
from ..model.run import Crash

LARGEST = 1 << 62  # of anything that can be measured
MAY_BE_NEGATIVE = ("rank", "worker")
Fact = TypeVar("Fact")


@dataclass(frozen=True)
class ProcessFact:
    """Who a process is."""

    python: str = ""
    rank: int | None = None
    world_size: int | None = None


@dataclass(frozen=True)
class WorkerFact:
    """It is a loader's worker, of that number."""

    worker: int | None = None


@dataclass(frozen=True)
class TorchFact:
    """torch is imported."""

    version: str | None = None
    threads: int | None = None


@dataclass(frozen=True)
class SettledFact:
    """What holds when the training begins to move."""

    threads: int | None = None
    device: str = ""


@dataclass(frozen=True)
class ExitFact:
    """The interpreter shuts down, after so many batches and steps."""

    at_ns: int | None = None
    arrivals: int | None = None
    trained: int | None = None


@dataclass(frozen=True)
class StoppedFact:
    """The agent ended the training; `launch` waits for it."""

    trained: int = 0


@dataclass(frozen=True)
class LoaderFact(Loader):
    """A loader, or a marked function, where it was built or, in another process, first iterated."""

    key: str = ""
    kind: str = "dataloader"
    pid: int = 0
    thing: int = 0
    origin: str = ""  # "pid:thing" where it came from
    length: int | None = None
    file: str = ""
    line: int = 0
    function: str = ""
    columns: list[int] = field(default_factory=list)
    dataset_at: tuple[str, int] | None = None


@dataclass(frozen=True)
class SiteFact:
    """The user's line that a row names by its number."""

    site: int = 0
    kind: str = ""
    file: str = ""
    line: int = 0
    function: str = ""


@dataclass(frozen=True)
class TransformFact:
    """A class of transforms, by the number that rows have for it."""

    number: int = 0
    name: str = "?"


@dataclass(frozen=True)
class FileFact:
    """A file that a fetch opened; ``direct``: past the page cache."""

    path: str = ""
    direct: bool = False


@dataclass(frozen=True)
class LoopFact:
    """The calls above a backward pass, the innermost first."""

    chain: list[tuple[str, int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class AskedFact(LoopFact):
    """The calls above a loop's first request for a batch."""


@dataclass(frozen=True)
class CompilerFact(LoopFact):
    """Why a graph broke, or was compiled again, and the calls above that line or the function."""

    what: str = ""
    reason: str = ""


@dataclass(frozen=True)
class NoticedFact:
    """A switch that was on during a backward pass."""

    switch: str = ""


@dataclass(frozen=True)
class GraphFact:
    """What an autograd graph shows of autocast, and of gradients that no optimizer uses."""

    casts_weights: bool | None = None
    unused_share: float | None = None


@dataclass(frozen=True)
class DeviceFact:
    """The accelerator."""

    kind: str = ""
    index: int = 0
    name: str = ""
    uuid: str = ""
    capability: tuple[int, int] | None = None
    memory_bytes: int | None = None
    hip: str | None = None


@dataclass(frozen=True)
class DeviceSilentFact:
    """Its clock is not read, and why."""

    why: str = ""


@dataclass(frozen=True)
class TraceFact:
    """A profiler's window left a trace of that loader's loop."""

    file: str = ""
    loader: int = 0
    steps: int = 0


@dataclass(frozen=True)
class TraceRefusedFact:
    """It left none, and why."""

    why: str = ""


@dataclass(frozen=True)
class RanksFact:
    """Who the process is among several."""

    rank: int | None = None
    world_size: int | None = None
    backend: str = ""


@dataclass(frozen=True)
class ParallelFact(Parallel):
    """A model that is shared among ranks or devices, or a group of parameters of one that is sharded."""

    kind: str = ""
    devices: int = 0
    rank: int | None = None


@dataclass(frozen=True)
class DdpBooksFact:
    """What DistributedDataParallel says of the model of that number."""

    model: int = 0
    bucket_sizes: str = ""
    rebuilt_bucket_sizes: str = ""
    unused_parameter_size: int | None = None
    comm_hook: str = ""


@dataclass(frozen=True)
class TreatedFact:
    """What a trial's treatment came to."""

    name: str = ""
    why: str = ""


@dataclass(frozen=True)
class LossesFact:
    """A trial's losses since the last such fact."""

    values: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BatchesFact:
    """Likewise the checksums of its batches."""

    checksums: list[int] = field(default_factory=list)


OWN = (
    ProcessFact, WorkerFact, TorchFact, SettledFact, ExitFact, StoppedFact, LoaderFact, SiteFact,
    TransformFact, FileFact, LoopFact, AskedFact, CompilerFact, NoticedFact, GraphFact, DeviceFact,
    DeviceSilentFact, TraceFact, TraceRefusedFact, RanksFact, ParallelFact, DdpBooksFact, TreatedFact,
    LossesFact, BatchesFact,
)  # fmt: skip
# The name of each kind: DdpBooksFact is "ddp_books".
KINDS: dict[type, str] = {
    ScriptSettings: "switches", Optimizer: "optimizer", DispatchBreakdown: "anatomy",
    GradientRows: "gradient_rows", Operator: "operator", Crash: "crash",
    **{kind: re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__[: -len("Fact")]).lower() for kind in OWN},
}  # fmt: skip


@cache
def keys(kind: type) -> dict[str, Any]:
    """The keys of a fact, and of what type each is."""
    return get_type_hints(kind)


def read(kind: type[Fact], written: dict[str, Any], pid: int) -> Fact | None:
    """The fact as its type; None where it lacks what has no default."""
    given = {**written, "pid": pid}
    typed = {name: as_type(one, given[name]) for name, one in keys(kind).items() if name in given}  # type: ignore[arg-type]
    try:
        return kind(**{name: value for name, value in typed.items() if value is not None})
    except TypeError:
        return None


def is_sound(name: str, value: object) -> bool:
    """Whether all numbers in it are possible measurements."""
    if isinstance(value, dict):
        return all(is_sound(name, one) for one in value.values())
    if isinstance(value, list):
        return all(is_sound(name, one) for one in value)
    if not isinstance(value, int) or isinstance(value, bool):
        return True
    return 0 <= value < LARGEST or (value == -1 and name in MAY_BE_NEGATIVE)
