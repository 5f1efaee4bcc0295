"""What moved between two runs, and whether it moved beyond the noise."""

from __future__ import annotations

from dataclasses import dataclass, field

from .report import Metric, Verdict


@dataclass(frozen=True)
class Move:
    """One metric in both reports. ``kind``: better, worse, moved, noise, unknown (no interval), absent.

    ``low`` and ``high`` bound ``delta`` = new - base at 90 %.
    """

    metric: str
    kind: str
    base: Metric | None
    new: Metric | None
    delta: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """Something in which two runs differ beside what is measured; ``refuses``: no gate may overlook it."""

    what: str
    base: str | float
    new: str | float
    refuses: bool = False


@dataclass(frozen=True)
class Comparison:
    """Two reports side by side. ``differences`` are why they may not be comparable."""

    base: Verdict
    new: Verdict
    moves: list[Move] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    appeared: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
