"""The profile: the measurements of a run, without conclusions.

Times named ``t`` or ``*_s`` are seconds; instants count from the run's start on
CLOCK_MONOTONIC. Shares run 0 to 1. ``None`` means "not measured", never zero.
Tables are columns of equal length, so that a long run stays small on disk. What is sampled, what is summed
and what is not kept is written in docs/how-it-works.md, "Which steps are sampled".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .code import FunctionSource
from .computing import Computing
from .device import DeviceFacts
from .fetches import Blocked, FetchTable, HotFiles, Making, Payload, Repeats
from .instruments import InstrumentCost, InstrumentWindow, Operation, Operator, Series, Stack
from .loops import Loader, Loop, Ranks, RankSteps
from .picture import Excerpt
from .run import Elapsed, Gap, Machine, Process, Run, Trial

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
    excerpts: list[Excerpt] = field(default_factory=list)
    trial: Trial | None = None
    sources: list[FunctionSource] = field(default_factory=list)
