"""Data of a report's charts: the course of the run, sampled Python stacks, ranks.

Instants are seconds from the run's start. Everything is thinned to what a screen can show, so that a page
about a million steps is no larger than one about a thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Curve:
    """One quantity over the run; None where it was not measured.

    ``name`` ends in its unit, as metrics do (``step_time_s``, ``job_cores``, ``gpu_busy_share``); ``group``
    names the plot that it belongs to: step, wait, cpu, gpu, io, pressure or memory.
    """

    name: str
    group: str
    t: list[float] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)


@dataclass(frozen=True)
class Mark:
    """A named stretch of the run. kind: warm-up, phase, evaluation, checkpoint, instrument."""

    kind: str
    begin_s: float
    end_s: float
    label: str = ""


@dataclass(frozen=True)
class Timeline:
    """The run from its start to its end."""

    duration_s: float
    curves: list[Curve] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)


@dataclass(frozen=True)
class CallPath:
    """Samples of one call path, outermost frame first, each ``function (file:line)``.

    ``running``: of as many samples, taken separately, how many found it running or runnable; None where that
    was not sampled.
    """

    frames: list[str]
    count: int
    running: int | None = None


@dataclass(frozen=True)
class CallPaths:
    """All call paths of one role: the training thread (trainer), the workers (worker) or others (other)."""

    role: str
    samples: int
    paths: list[CallPath] = field(default_factory=list)


@dataclass(frozen=True)
class RankMap:
    """Ranks over time: what each took outside of exchanges, over what the median rank took.

    ``edges`` are the steps between which the columns of ``ratio`` lie, one row for each of ``names``, and
    ``ends_s`` when they ended, in seconds since the run began; None where steps were set aside. ``left_out``
    ranks are nearer to the median one than all that are shown.
    """

    names: list[str]
    edges: list[int]
    ends_s: list[float]
    ratio: list[list[float | None]]
    left_out: int = 0


@dataclass(frozen=True)
class Picture:
    """Everything that can be drawn of a run; empty where nothing was measured."""

    timeline: Timeline
    stacks: list[CallPaths] = field(default_factory=list)
    ranks: RankMap | None = None
