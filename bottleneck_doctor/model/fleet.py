"""Totals over many runs: waste by cause and job, remedies, jobs that got slower."""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = "bottleneck-doctor/fleet"
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Hours:
    """Core-hours are hours times the cores that a job was given, GPU-hours times its GPUs."""

    core: float = 0.0
    gpu: float = 0.0


@dataclass(frozen=True)
class Totals:
    """All runs that were read. ``first`` and ``last`` are when the earliest and the latest began (UTC).

    Each run is one of: ``saving`` (a remedy's likely speedup is known), ``healthy``, ``unknown`` (no remedy
    of which more than a bound is known), ``inconclusive``. The last two count no waste. ``repeated`` reports
    of a run that another file holds too count once.
    """

    runs: int = 0
    jobs: int = 0
    nodes: int = 0
    first: str | None = None
    last: str | None = None
    taken: Hours = Hours()
    wasted: Hours = Hours()
    saving: int = 0
    healthy: int = 0
    unknown: int = 0
    inconclusive: int = 0
    repeated: int = 0


@dataclass(frozen=True)
class Wasted:
    """What the runs of one cause, or of one job and cause, took, and what their best remedies would save."""

    cause: str
    runs: int
    taken: Hours
    wasted: Hours
    job: str | None = None


@dataclass(frozen=True)
class Saving:
    """What one remedy would save where its likely speedup is known; in ``bounded`` runs only a bound is."""

    remedy: str
    finding: str
    runs: int
    saved: Hours
    bounded: int = 0


@dataclass(frozen=True)
class Slowed:
    """A job whose mean step got slower on the same hardware: ``change`` = after / before - 1, ``low`` its
    lower end, as wide as comparing so many jobs asks for."""

    job: str
    hardware: str
    before_s: float
    after_s: float
    change: float
    low: float
    runs_before: int
    runs_after: int


@dataclass(frozen=True)
class RefusedFile:
    """A file that was not read, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class Fleet:
    """Everything that `bdoc fleet` answers. ``since`` parts "before" from "after" (UTC); ``jobs_compared``
    had enough runs to be judged. ``refused`` names some of ``refused_files``."""

    totals: Totals
    causes: list[Wasted] = field(default_factory=list)
    jobs: list[Wasted] = field(default_factory=list)
    remedies: list[Saving] = field(default_factory=list)
    since: str | None = None
    jobs_compared: int = 0
    slowed: list[Slowed] = field(default_factory=list)
    refused_files: int = 0
    refused: list[RefusedFile] = field(default_factory=list)
    schema: str = SCHEMA
    schema_version: int = SCHEMA_VERSION
