"""What sensors deliver: raw readings with the instant they were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
