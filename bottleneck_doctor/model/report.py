"""The report: conclusions drawn from a profile, in the shape that ``--format json`` prints."""

from __future__ import annotations

from dataclasses import dataclass, field

from .code import Location
from .derived import HotFunction, HotOperator
from .run import Gap, Treatment

SCHEMA = "bottleneck-doctor/report"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class RunSummary:
    """The command, the machine and the end of a run. ``machine`` is the profile's, with the number of
    ``hosts`` that its ranks ran on."""

    command: list[str]
    script: str | None
    cwd: str
    started_at: str
    duration_s: float
    exit_status: int
    host: str
    python: str
    torch: str | None
    machine: dict[str, object] = field(default_factory=dict)
    stopped_by: str | None = None


@dataclass(frozen=True)
class Overhead:
    """What bdoc's measuring cost; ``None`` if not measured. ``within_s``: seconds by which the training took
    longer; ``around_s``: those before its start and after its end."""

    agent_s_per_step: float | None
    share_of_step: float | None
    supervisor_cpu_share: float | None
    within_s: float | None = None
    around_s: float | None = None


@dataclass(frozen=True)
class Metric:
    """One measured quantity with its 90 % interval, sample count and source."""

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    n: int = 0
    source: str = ""


@dataclass(frozen=True)
class Quality:
    """How far the measurement can be trusted.

    ``uncontended_step`` is the step time without waiting for cores that other programs used; ``None`` where
    that was not measured, without a value where nearly all of it was such waiting.
    """

    steady_steps: int
    warmup_steps: int
    step_time_noise: float | None
    overhead: Overhead
    gaps: list[Gap] = field(default_factory=list)
    set_aside: dict[str, int] = field(default_factory=dict)
    uncontended_step: Metric | None = None


@dataclass(frozen=True)
class BudgetPart:
    """One part of the steady step; the shares sum to 1."""

    part: str
    share: float
    s_per_step: float


@dataclass(frozen=True)
class LedgerPart:
    """One part of the whole run's wall time, from its start to its exit; the shares sum to 1."""

    part: str
    share: float
    s: float


@dataclass(frozen=True)
class Verdict:
    """Which resource limits the run, and why.

    ``gain[x]`` = step time / step time predicted with resource x infinitely fast; ``None`` when that
    resource was not measured. ``confidence`` is high, medium or low.
    """

    bound: str
    cause: str
    summary: str
    confidence: str
    runner_up: str | None = None
    gain: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """A stretch of steps with one verdict."""

    from_step: int
    to_step: int
    label: str
    verdict: Verdict


@dataclass(frozen=True)
class Evidence:
    """One observation behind a finding: a sentence, and the number that supports it."""

    text: str
    metric: str = ""
    value: float | None = None
    source: str = ""


@dataclass(frozen=True)
class ReportedFinding:
    """A problem that was found. severity: primary, secondary, notice."""

    id: str
    cause: str
    severity: str
    evidence: list[Evidence]
    location: Location | None = None


@dataclass(frozen=True)
class Speedup:
    """Predicted end-to-end speedup of the steady step. basis: replay, amdahl or bound.

    For a bound ``likely`` is None: no measurement shows how much of ``high`` can be reached.
    """

    low: float
    likely: float | None
    high: float
    basis: str

    @property
    def reach(self) -> float:
        """The likely value; the bound if there is none."""
        return self.high if self.likely is None else self.likely


@dataclass(frozen=True)
class Fix:
    """What to change: one sentence, the exact lines, and where."""

    text: str
    snippet: str = ""
    location: Location | None = None


@dataclass(frozen=True)
class Remedy:
    """One cure with the speedup to expect, of the "step" or, by its ``scope``, of the whole "run";
    ``combined_speedup`` includes all remedies above it; ``treatments`` are how `bdoc prove` applies it."""

    id: str
    title: str
    finding: str
    predicted_speedup: Speedup
    predicted_step_s: float | None
    combined_speedup: float | None
    fix: Fix
    apply: str
    effort: str
    risk: str
    scope: str = "step"
    treatments: tuple[Treatment, ...] = ()


@dataclass(frozen=True)
class Abstention:
    """A finding that could not be examined, and what was missing."""

    finding: str
    missing: str


@dataclass(frozen=True)
class DeviceSummary:
    """The accelerator that the training used: torch's name of it and its kind, and what was measured."""

    name: str
    kind: str
    told: list[Evidence] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """Everything that the renderers may say. ``budget_of`` names the loop whose steps verdict and budget are
    about: "training" or, where that takes the run's time, "evaluation". ``bdoc`` is the version that drew
    these conclusions, where a command says so."""

    run: RunSummary
    quality: Quality
    metrics: dict[str, Metric]
    budget: list[BudgetPart]
    verdict: Verdict
    phases: list[Phase] = field(default_factory=list)
    findings: list[ReportedFinding] = field(default_factory=list)
    remedies: list[Remedy] = field(default_factory=list)
    abstentions: list[Abstention] = field(default_factory=list)
    environment: dict[str, str | float | None] = field(default_factory=dict)
    functions: list[HotFunction] = field(default_factory=list)
    operators: list[HotOperator] = field(default_factory=list)
    device: DeviceSummary | None = None
    ledger: list[LedgerPart] = field(default_factory=list)
    budget_of: str = "training"
    bdoc: str = ""
    schema: str = SCHEMA
    schema_version: int = SCHEMA_VERSION
