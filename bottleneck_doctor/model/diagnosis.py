"""What lies between facts and conclusions: the steady window, the model of the loop, findings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .code import Location
from .device import DeviceView
from .loops import Loader, Loop
from .profile import Profile
from .report import BudgetPart, Evidence, Fix, Metric, Phase, Quality, Verdict
from .run import Treatment


@dataclass(frozen=True)
class Whole:
    """Seconds of a whole run, in training and in evaluation, of the process that the report is about.

    Of both, ``starting_s`` went into starting and stopping workers, ``checkpoint_s`` into saving; ``steps_s``
    is what the training's steps took without these. ``evaluated_at`` is where the training loop evaluates
    without a loader; such an evaluation's time is known from stack samples, their number is not.
    """

    run_s: float = 0.0
    training_s: float = 0.0
    evaluation_s: float = 0.0
    evaluations: int = 0
    starting_s: float = 0.0
    checkpoint_s: float = 0.0
    steps_s: float = 0.0
    evaluated_at: Location | None = None


@dataclass(frozen=True)
class Step:
    """A row of the steady window, per step, in seconds. ``compute`` is what no other field explains.

    The parts ``wait``, ``checkpoint``, ``logging``, ``collect``, ``copy``, ``backward``, ``optimizer``,
    ``exchange`` (asleep in exchanges with other ranks) and ``compute`` sum to ``wall``. ``cpu``, ``queue``
    and ``process_cpu`` describe the loop's thread and its process; ``wait_queue`` is the part of ``queue``
    inside ``next``. ``system`` is the kernel's part of ``process_cpu``, ``faults`` are the pages newly
    mapped. ``freed`` is the part of ``wait`` that stack samples moved there: releasing the last batch.
    """

    t: float
    steps: int
    wall: float
    wait: float
    backward: float
    optimizer: float
    checkpoint: float
    logging: float
    collect: float
    copy: float
    compute: float
    cpu: float | None
    queue: float | None
    process_cpu: float | None
    wait_cpu: float | None
    wait_queue: float = 0.0
    exchange: float = 0.0
    system: float | None = None
    faults: float | None = None
    freed: float = 0.0

    @property
    def held(self) -> float:
        """Seconds for which the loop, outside of ``next``, was ready and had no core."""
        return max(0.0, (self.queue or 0.0) - self.wait_queue)


@dataclass(frozen=True)
class BatchCost:
    """What the process that fetches one batch spends on it, in seconds net of waiting for a core. ``reading``
    is the kernel's CPU for reads from storage, or for writes: it uses a core, but ends with them."""

    cpu: float
    collate: float = 0.0
    reading: float = 0.0
    storage: float = 0.0
    network: float = 0.0
    wait: float = 0.0

    @property
    def on_core(self) -> float:
        """Seconds for which it needs a core."""
        return self.cpu + self.collate + self.reading


@dataclass(frozen=True)
class StepCost:
    """What the loop does with one batch, in seconds of wall time net of waiting for a core.

    ``compute`` is on the CPU, as many cores wide as the scenario's ``threads``; ``python`` and ``launch`` are
    the interpreter's own work and the price of calling many small operators, one core wide; ``comm`` is
    exposed exchange between ranks, ``straggler`` waiting for slower ones, ``memory`` stalls on reclaim and
    swap, ``paging`` the kernel's CPU for pages that are mapped anew; ``idle`` is blocked on something else,
    an accelerator included; the others are host work with hooks of their own.

    Where the accelerator's own clock was read, ``device`` and ``copying`` are its computing and its waiting
    for copies. They begin ``lead_in`` (host work right after a wait for the device) plus ``allocating`` (the
    driver allocating device memory) after the step begins; the loop's other work runs in parallel.
    """

    compute: float
    idle: float = 0.0
    checkpoint: float = 0.0
    logging: float = 0.0
    collect: float = 0.0
    python: float = 0.0
    launch: float = 0.0
    comm: float = 0.0
    straggler: float = 0.0
    memory: float = 0.0
    paging: float = 0.0
    device: float = 0.0
    copying: float = 0.0
    lead_in: float = 0.0
    allocating: float = 0.0


@dataclass(frozen=True)
class Transport:
    """What moving a batch from a worker to the loop takes, in seconds.

    ``hand_over`` is the loop's CPU for receiving it, ``serialise`` the worker's for sending it, of which
    ``serving`` passes while it makes the next one; ``transfer`` what the loop sleeps through, ``waking`` what
    more if no core is free, ``delay`` the time from a finished batch to a woken loop.
    """

    hand_over: float = 0.0
    serialise: float = 0.0
    serving: float = 0.0
    transfer: float = 0.0
    waking: float = 0.0
    delay: float = 0.0


@dataclass(frozen=True)
class EpochStart:
    """``seconds`` that the start of an epoch of ``steps`` steps takes, of which ``draws`` for choosing
    indices; 0 steps = the run has one epoch."""

    steps: int = 0
    seconds: float = 0.0
    draws: float = 0.0


@dataclass(frozen=True)
class FeederLoad:
    """The job's own threads and processes that make batches for a loop without a loader: how many, the
    ``seconds`` for which they run per batch, which no step can be shorter than, and the share of their time
    in which they hand batches over."""

    count: int = 0
    seconds: float = 0.0
    sending: float = 0.0


@dataclass(frozen=True)
class CostShares:
    """Shares of the parts of ``StepCost``. ``stored``, of checkpoints and logging: blocked, not computed.
    ``exchanging``, of ``comm``: the exchange's own threads want a core while the loop sleeps. ``asleep``, of
    ``idle``: the loop's thread sleeps in the model, for other threads of it; ``resting``: in lines of its
    own, outside of data, model and writing."""

    stored: float = 0.0
    exchanging: float = 0.0
    asleep: float = 0.0
    resting: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """Everything that the replay needs. ``workers`` 0 = the loop fetches for itself.

    ``strangers`` is how many cores other programs keep busy; ``threads`` is on how many cores the loop
    computes, ``making_threads`` on how many it makes its batches, which a worker does on one; ``streams`` how
    many reads the storage serves at once before each gets slower, 0 = no limit known; ``ahead`` how many
    steps' worth of accelerator work the loop may leave unfinished when it goes on, 0 = it waits for all;
    ``sampling`` its time for choosing indices. ``undivided``: the accelerator's computing may include waits
    for kernel launches. ``crowded`` are the seconds of a step in which the makers of batches kept a core or
    the GIL from it, ``limited`` the seconds per batch under a read limit that was reached;
    ``operator_s`` is the time-weighted mean duration of the model's operators, 0 = not known.
    """

    works: tuple[BatchCost, ...]
    costs: tuple[StepCost, ...]
    workers: int = 0
    prefetch: int = 2
    in_order: bool = True
    cores: float = 1.0
    strangers: float = 0.0
    threads: float = 1.0
    streams: float = 0.0
    ahead: float = 0.0
    sampling: float = 0.0
    making_threads: float = 1.0
    undivided: bool = False
    crowded: float = 0.0
    limited: float = 0.0
    operator_s: float = 0.0
    transport: Transport = Transport()
    epoch: EpochStart = EpochStart()
    feeders: FeederLoad = FeederLoad()
    shares: CostShares = CostShares()


@dataclass(frozen=True)
class Change:
    """What a remedy would change. Factors scale a cost; ``None`` leaves a setting as it is."""

    workers: int | None = None
    prefetch: int | None = None
    cores: float | None = None
    strangers: float | None = None
    threads: float | None = None
    streams: float | None = None
    ahead: float | None = None
    cpu: float = 1.0
    collate: float = 1.0
    storage: float = 1.0
    network: float = 1.0
    wait: float = 1.0
    ipc: float = 1.0
    startup: float = 1.0
    compute: float = 1.0
    idle: float = 1.0
    checkpoint: float = 1.0
    logging: float = 1.0
    collect: float = 1.0
    python: float = 1.0
    launch: float = 1.0
    comm: float = 1.0
    straggler: float = 1.0
    memory: float = 1.0
    paging: float = 1.0
    sampling: float = 1.0
    device: float = 1.0
    copying: float = 1.0
    lead_in: float = 1.0
    allocating: float = 1.0

    @property
    def reading(self) -> float:
        """The kernel's CPU for reads shrinks with the reads from storage."""
        return self.storage


@dataclass(frozen=True)
class Inputs:
    """Means per batch of the steady window for the training loader, in seconds (shares 0 to 1).

    ``busy`` is the share of time the workers spend inside fetches; ``blocked_samples`` says on how many
    outside observations the split of blocked time rests (0 = none, the split is then a guess). ``containers``
    are HDF5, zip, tar and Parquet files opened, ``container``/``container_cpu`` what opening them takes.
    ``reading`` is the part of ``cpu`` that is the kernel's for reads from storage, or for writes; ``written``
    the part of ``storage`` that waits for writes, 0 unless that is most of it. ``minor_faults`` are pages
    newly mapped, None if not counted.
    """

    batches: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    other_cpu: float = 0.0
    system: float = 0.0
    queue: float = 0.0
    collate: float = 0.0
    decode: float = 0.0
    reading: float = 0.0
    storage: float = 0.0
    written: float = 0.0
    network: float = 0.0
    wait: float = 0.0
    waits: dict[str, float] = field(default_factory=dict)
    samples: float = 0.0
    storage_bytes: float | None = None
    read_bytes: float | None = None
    reads: float | None = None
    major_faults: float = 0.0
    opens: float | None = None
    containers: float | None = None
    container: float = 0.0
    container_cpu: float = 0.0
    minor_faults: float | None = None
    busy: float | None = None
    blocked_samples: int = 0

    @property
    def fetching(self) -> float:
        """CPU of a batch that ``Change.cpu`` scales: neither collating nor the kernel's for cold reads."""
        return max(1e-12, self.cpu - self.collate - self.reading)


@dataclass(frozen=True)
class HostLoad:
    """The machine during the steady window; cores and shares, ``None`` when not measured.

    ``accelerated`` says that the training process uses a device; ``device_busy`` is the share of time
    in which some kernel ran. ``trainers`` are the processes of the job that train at the same time, and so
    share ``cores``. ``helped`` is the CPU of the processes below them over that of their main threads alone,
    1 where other threads take little of it or the main ones seldom wait for a core.
    """

    cores: float
    cores_online: int = 0
    trainers: int = 1
    job_cores: float | None = None
    foreign_cores: float | None = None
    iowait: float | None = None
    disk_busy: float | None = None
    disk_queue: float | None = None
    job_read_bytes_per_s: float | None = None
    throttled: float | None = None
    accelerated: bool = False
    device_busy: float | None = None
    helped: float = 1.0


@dataclass(frozen=True)
class Diagnosis:
    """The input of findings. ``source`` is the line that gets the batches of a ``loop`` without a
    loader, whose waits are estimated. ``evaluation`` is the same about the steps of the longest evaluation;
    ``subject`` says what the verdict is about: "training", "evaluation", or what in the "run" is neither."""

    profile: Profile
    loop: Loop | None
    source: Location | None
    loader: Loader | None
    steps: list[Step]
    inputs: Inputs
    host: HostLoad
    scenario: Scenario | None
    step_s: float
    wait_s: float
    model_error: float
    metrics: dict[str, Metric]
    budget: list[BudgetPart]
    quality: Quality
    verdict: Verdict
    phases: list[Phase] = field(default_factory=list)
    whole: Whole = field(default_factory=Whole)
    evaluation: Diagnosis | None = None
    causes: dict[str, float] = field(default_factory=dict)
    device: DeviceView | None = None
    subject: str = "training"

    @property
    def without_loader(self) -> Loop | None:
        """The loop, where it uses no loader."""
        return None if self.loop is None or self.loop.loader else self.loop


@dataclass(frozen=True)
class Proposal:
    """A remedy as a finding states it. Either ``change`` is replayed, or ``factor`` is (low, likely, high).
    ``basis`` is what that rests on: the run ("replay", "amdahl") or, as a "bound", experience elsewhere: then
    the factor only orders the list, and ``most`` is reported, the speedup if all that the remedy shortens
    took nothing: of a cure for the input, where that is None, if no batch took any time.
    ``scope`` is what the factor speeds up: the "step", or the "run" where no training step gets faster.
    ``treatments`` are what `bdoc prove` does to try it; none where it cannot."""

    id: str
    title: str
    fix: Fix
    change: Change | None = None
    factor: tuple[float, float, float] | None = None
    most: float | None = None
    apply: str = "manual"
    effort: str = "minutes"
    risk: str = ""
    basis: str = "replay"
    scope: str = "step"
    treatments: tuple[Treatment, ...] = ()

    def at(self, location: Location | None, snippet: str = "", text: str = "") -> Proposal:
        """The same for a place in the user's code; with other lines to write or another sentence if given."""
        return replace(self, fix=Fix(text or self.fix.text, snippet or self.fix.snippet, location))


@dataclass(frozen=True)
class Finding:
    """A problem that was found, with its evidence and its remedies, best first."""

    id: str
    cause: str
    evidence: list[Evidence]
    proposals: list[Proposal] = field(default_factory=list)
    location: Location | None = None
