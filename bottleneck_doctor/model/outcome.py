"""What the gate was asked and what it found: thresholds, measured values, exit status."""

from __future__ import annotations

from dataclasses import dataclass, field

HOLDS = 0
EXCEEDED = 1
CANNOT_SAY = 3


@dataclass(frozen=True)
class Condition:
    """A state of a metric that fails the gate; ``origin`` says who asked for it."""

    metric: str
    op: str
    threshold: float
    origin: str = "--fail-if"


@dataclass(frozen=True)
class Judgement:
    """One condition applied to one report. ``close`` = the 90 % interval crosses the threshold."""

    condition: Condition
    status: int
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    close: bool = False
    why: str = ""


@dataclass(frozen=True)
class Regression:
    """The step time against a baseline's. ``change`` = new / base - 1, with its 90 % interval."""

    status: int
    limit: float
    base_s: float | None
    new_s: float | None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """Everything that the gate found. status: 0 holds, 1 exceeded, 3 cannot say."""

    status: int
    judgements: list[Judgement] = field(default_factory=list)
    regression: Regression | None = None
