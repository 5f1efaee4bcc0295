"""Ranks that other runs of ``bdoc`` watched, as a merged profile keeps them: who waits for whom, and why."""

from __future__ import annotations

from dataclasses import dataclass, field

from .device import DeviceWindow


@dataclass(frozen=True)
class RankSteps:
    """The steps of one rank, in columns of equal length.

    A row covers ``steps`` steps; seconds are sums over them: all of it, waiting for data, ready without a
    core, asleep in exchanges. ``aside`` rows do not count. ``pid`` is beyond all of this machine's where
    another profile, at ``file``, had it. Of the time of these steps on its ``host``: cores that its job and
    others kept busy, and the share of periods in which its quota was used up; None where that was not
    counted. ``window`` are its device's profiled steps.
    """

    pid: int
    rank: int | None = None
    host: str = ""
    file: str = ""
    steps: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    wait_s: list[float] = field(default_factory=list)
    runq_s: list[float] = field(default_factory=list)
    exchange_s: list[float] = field(default_factory=list)
    aside: list[bool] = field(default_factory=list)
    job_cores: float | None = None
    foreign_cores: float | None = None
    throttled: float | None = None
    window: DeviceWindow | None = None


@dataclass(frozen=True)
class SlowRank:
    """A rank that comes late step after step. Seconds per step: outside of exchanges, and how much of that is
    beyond the median rank's. ``cause`` is what most of the latter, ``part_s``, went into: "data" (waiting for
    it), "quota" or "cores" (ready without a core), or "work" (its own)."""

    rank: RankSteps
    own_s: float
    beyond_s: float
    cause: str
    part_s: float
