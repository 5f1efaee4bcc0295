"""Comparisons and gates: what moved between two runs, and which thresholds hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from .report import Metric, Report, Verdict


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
    """A difference between two runs other than their speed; ``refuses``: not compared unless allowed."""

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


HOLDS = 0
EXCEEDED = 1
CANNOT_SAY = 3


@dataclass(frozen=True)
class Condition:
    """A state of a metric that fails the gate; ``origin`` is the option or file that set it."""

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
class Outcome:
    """The outcome of all thresholds for one report. status: 0 holds, 1 exceeded, 3 cannot say."""

    status: int
    judgements: list[Judgement] = field(default_factory=list)


@dataclass(frozen=True)
class Repeat:
    """One profile of a check: the name it was given by, and its report."""

    name: str
    report: Report


@dataclass(frozen=True)
class Regression:
    """Repeats of a job against those of its baseline.

    ``what``: ``step`` or ``sample``, whose seconds are compared. ``change`` = new / base - 1 with its 90 %
    interval. ``base_contended`` and ``new_contended``: shares of the measured steps that other programs on
    the machine cost; the seconds of neither side hold them. ``noise``: the standard deviation between runs as
    a share, ``assumed`` where no side has repeats. ``sees`` is the smallest change that would have failed 95
    times of 100; ``repeats`` as many runs a side as would show ``wanted``, None where too many. ``why`` says
    why there is no result, ``differences`` what else differs; ``refused`` if the reason lies in these.
    """

    status: int
    limit: float
    base_runs: int
    new_runs: int
    what: str = "step"
    base_s: float | None = None
    new_s: float | None = None
    base_contended: float | None = None
    new_contended: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float | None = None
    assumed: bool = False
    sees: float | None = None
    wanted: float | None = None
    repeats: int | None = None
    why: str = ""
    refused: bool = False
    differences: list[Difference] = field(default_factory=list)


@dataclass(frozen=True)
class Checked:
    """One profile and the outcome of its thresholds."""

    profile: str
    report: Report
    outcome: Outcome


@dataclass(frozen=True)
class Gate:
    """Everything that one check found; the worst status of its parts is its own."""

    status: int
    checked: list[Checked]
    regression: Regression | None = None
