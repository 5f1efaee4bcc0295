"""What ``--format json`` prints: conclusions from a profile, comparison or gate of some, totals of many."""

from __future__ import annotations

from dataclasses import dataclass, field

from .code import Location
from .run import Gap, RunEnd, Treatment

SCHEMA = "bottleneck-doctor/report"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class HotFunction:
    """A function in the stack samples of one role: the training thread (trainer) or the workers (worker).

    ``own_share``, of the role's ``n`` samples, is the function itself; for the user's own functions
    (``users``) it includes the library code that they called. ``total_share`` includes whatever was called.
    The line is the one it was seen in most. ``on_cpu_share`` is the share of its own samples in which the
    thread was running or runnable, not blocked (asleep, in a lock, reading); None if that was not sampled,
    or in fewer than 20 samples.
    """

    function: str
    location: Location
    role: str
    users: bool
    own_share: float
    total_share: float
    n: int
    on_cpu_share: float | None = None


@dataclass(frozen=True)
class HotOperator:
    """An operator of torch in the profiled step: its own CPU seconds, and their share of all operators'."""

    name: str
    calls: float
    self_cpu_s: float
    self_device_s: float
    share: float


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
    end: RunEnd | None = None


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


# Settings of the environment and of precision answer no cause: last, unless a replay promises so much.
SETTINGS = frozenset("cpu-bf16 cpu-fp32-precision-medium keep-freed-memory more-cores isolate-cpus".split())
SURE = 1.2


def is_setting(remedy: str, told: Speedup) -> bool:
    """Whether the remedy answers no cause, and no replay promises much of it."""
    return remedy in SETTINGS and (told.likely is None or told.likely < SURE)


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
    """The accelerator that the training used: torch's name of it and its kind, what was measured, and what
    to look at ``first`` on it."""

    name: str
    kind: str
    told: list[Evidence] = field(default_factory=list)
    first: str = ""


@dataclass(frozen=True)
class Report:
    """Everything that the renderers may say. ``budget_of`` names the loop whose steps verdict and budget are
    about: "training" or, where that takes the run's time, "evaluation". ``warnings`` are changes that would
    slow this run down. ``bdoc`` is the version that drew these conclusions, where a command says so."""

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
    warnings: list[Remedy] = field(default_factory=list)
    schema: str = SCHEMA
    schema_version: int = SCHEMA_VERSION


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

    base: Report
    new: Report
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
    schema: str = "bottleneck-doctor/fleet"
    schema_version: int = 2
