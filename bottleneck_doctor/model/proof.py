"""The proof: remedies tried on the user's own training, as ``bdoc prove --format json`` prints it."""

from __future__ import annotations

from dataclasses import dataclass, field

from .report import Fix, RunSummary, Speedup
from .run import Treatment, Trial

BASELINE = "baseline"
CEILING = "cached-batches"  # the loop is fed the same batches from memory: what no remedy for input exceeds


@dataclass(frozen=True)
class Arm:
    """One way to run the training. ``kind``: baseline, ceiling, remedy, combination; ``remedies`` are the ids
    of what it applies. ``scope``: "step" or "run", what the speedup is of."""

    id: str
    kind: str
    title: str = ""
    remedies: tuple[str, ...] = ()
    treatments: tuple[Treatment, ...] = ()
    predicted: Speedup | None = None
    scope: str = "step"


@dataclass(frozen=True)
class ComparedSteps:
    """The steps that are compared, the same ones in every run: those after ``begin``, up to ``end``."""

    begin: int
    end: int


@dataclass(frozen=True)
class Attempt:
    """One run of an arm, in a process of its own.

    ``outcome``: measured, broke (``why``: how the script ended), hung, out-of-memory, not-applied, too-short
    or interrupted. ``step_s`` is the mean steady step and ``error`` its standard error as a share of it;
    ``whole_s`` is the mean step with evaluation and whatever else lies between steps. ``fair_s`` is the mean
    step without waiting for cores that other programs used, with its error; None where that is not known.
    ``memory_bytes``: the most that all of its processes held.
    """

    arm: str
    outcome: str
    why: str = ""
    step_s: float | None = None
    whole_s: float | None = None
    error: float = 0.0
    steps: int = 0
    run_s: float = 0.0
    memory_bytes: int | None = None
    trial: Trial | None = None
    fair_s: float | None = None
    fair_error: float = 0.0


@dataclass(frozen=True)
class Parity:
    """How the first losses compare with the baseline's. ``word``: identical, order (the same batches, in
    another order), changed, or unknown, with the reason in ``text``. ``steps`` were compared; ``largest`` is
    the largest relative difference."""

    word: str
    text: str = ""
    steps: int = 0
    largest: float | None = None


@dataclass(frozen=True)
class Gain:
    """Measured speedup, the baseline's step time over this one's, with its 90 % interval; ``runs`` a side."""

    likely: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Patch:
    """A unified diff of the user's script; "" where none can be made safely, and ``why``."""

    diff: str = ""
    why: str = ""


@dataclass(frozen=True)
class Proved:
    """One row of the table. ``verdict``: kept, no gain, worse, undecided, or what became of it: broke, hung,
    out-of-memory, not-applied, not-tried. ``memory_ratio``: of the job's peak, over the baseline's."""

    id: str
    kind: str
    title: str
    remedies: list[str]
    apply: str
    predicted: Speedup | None
    measured: Gain | None
    verdict: str
    why: str = ""
    parity: Parity = field(default_factory=lambda: Parity("unknown"))
    memory_ratio: float | None = None
    scope: str = "step"
    fix: Fix | None = None
    patch: Patch | None = None
    treatments: list[Treatment] = field(default_factory=list)  # the changes that the agent was asked to make


@dataclass(frozen=True)
class ProofCost:
    """Seconds: of the run in which the baseline was watched, of all runs together, and what was allowed."""

    window_s: float
    spent_s: float
    budget_s: float
    runs: int


@dataclass(frozen=True)
class Missed:
    """A remedy of the report that bdoc cannot try, and why."""

    id: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What would be tried, in this order, and what it would cost: ``run_s`` is one run's length, ``least_s``
    and ``most_s`` bound all of them together."""

    arms: list[Arm]
    missed: list[Missed]
    span: ComparedSteps
    step_s: float
    run_s: float
    least_s: float
    most_s: float
    schema: str = "bottleneck-doctor/plan"
    schema_version: int = 1


@dataclass(frozen=True)
class Proof:
    """Everything that the renderers may say; ``rows`` best first, ``winner`` the id of one of them or "".

    ``baseline_s``: seconds per step without a remedy; ``noise``: the standard deviation between runs, as a
    share; ``attempts``: all runs in their order, without the facts that their agents reported."""

    run: RunSummary
    baseline_s: float | None
    noise: float | None
    steps: int
    rows: list[Proved]
    ceiling: Proved | None
    winner: str
    cost: ProofCost
    missed: list[Missed] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    schema: str = "bottleneck-doctor/proof"
    schema_version: int = 1
