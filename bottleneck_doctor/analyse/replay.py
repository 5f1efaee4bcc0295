"""Predicts the step time of a loader setting by replaying measured batches on simulated cores.

The model (one consumer, W workers, K = W x prefetch task slots):

* batch n is handed out when batch n-K was received; in order, worker n mod W makes it;
* a worker serves one batch at a time; its CPU part shares the cores with everything else that runs
  (processor sharing: with demand D on N cores everything on the CPU runs N/D as fast; threads that compute a
  layer together all wait for the one that shares its core), its blocked part does not; blocked reads share
  ``streams`` parallel streams of the storage when that is known;
* the loop receives in order, pays ``hand_over``, and takes its turn; receiving takes some wake-ups, of the
  loop and of the worker that hands out descriptors, and each waits for a core where none is free; handing
  them out takes a core of its own (``serving``), in parallel with the worker's next batch;
* an accelerator executes the turns' work in order, in parallel with the loop; the loop goes on
  once no more than ``ahead`` turns' worth is left: step = max(host + wait, device).

One file, so that its accuracy can be published and guarded.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import ceil, inf, log
from operator import attrgetter, mul
from typing import TypeVar

from ..model.diagnosis import BatchCost, Change, EpochStart, Scenario, StepCost, Transport

Part = TypeVar("Part", BatchCost, StepCost)
SETTINGS = ("workers", "prefetch", "cores", "strangers", "threads", "streams", "ahead")
WORK_PARTS = tuple(one.name for one in fields(BatchCost))
TRANSPORT_PARTS = tuple(one.name for one in fields(Transport))
STEP_COST_PARTS = tuple(one.name for one in fields(StepCost))

# Of what perfect sharing gains, threads gain at most: measured on two cores 0.34 in linear layers, 0.49 in a
# transformer, nothing in small convolutions (steps in tests/analyse/test_threads.py).
DIVIDED = 0.5
BATCHES = 192  # replayed per prediction; enough for a slope, cheap enough to search
LITTLE = 1e-12
SETTLES = 4  # iterations, after which demand is within some percent of the cores
SHARED = 0.5  # of its core is left to a worker that shares it with one thread of the model
# Of their speed is left to the model's threads where one of them shares its core, and where two do; measured
# on two cores: 0.28, 0.40, 0.46 of small convolutions, linear layers, a transformer; with two 0.21, 0.42,
# 0.41, and 0.16 of a detector with batch norms (steps in tests/analyse/test_threads.py)
TOGETHER = (0.42, 0.2)
# The same where an operator lasts for many slices of the scheduler, which even out what its threads get;
# measured of products and convolutions with one or two other busy processes: 0.21 to 0.31 and 0.02 to 0.26
# up to 1.3 ms, 0.42 and 0.34 of 10 ms, 0.49 and 0.43 of 26 ms, 0.56 and 0.49 of 0.1 s
TOGETHER_LONG = (0.55, 0.47)
SHORT_S, LONG_S = 1e-3, 0.1


def one_thread_longer(threads: float) -> float:
    """Estimates how many times as long large operators take with one thread instead of so many."""
    return 1 + DIVIDED * (threads - 1)


def apply(change: Change, base: Scenario) -> Scenario:
    """The scenario with a change made to it: costs are scaled, settings replaced."""
    settings = {name: value for name in SETTINGS if (value := getattr(change, name)) is not None}
    if base.workers == 0 and change.workers:
        change = replace(change, cpu=change.cpu * base.making_threads)  # a worker has one thread
    works = _scaled(base.works, change, WORK_PARTS)
    left = _making_left(works, change, base)
    draws = min(base.epoch.draws, base.epoch.seconds)
    start = (base.epoch.seconds - draws) * change.startup + draws * change.sampling
    return replace(
        base,
        works=works,
        costs=_scaled(base.costs, change, STEP_COST_PARTS),
        transport=base.transport
        if change.ipc == 1.0
        else Transport(*(getattr(base.transport, name) * change.ipc for name in TRANSPORT_PARTS)),
        sampling=base.sampling * change.sampling,
        epoch=EpochStart(base.epoch.steps, start, draws * change.sampling),
        feeders=replace(base.feeders, seconds=base.feeders.seconds * left),
        limited=base.limited * change.storage,
        crowded=base.crowded * left * base.cores / (change.cores or base.cores),
        **settings,
    )


def _making_left(works: tuple[BatchCost, ...], change: Change, base: Scenario) -> float:
    """How much of the CPU for making batches is left, as a share."""
    if not (base.feeders.seconds or base.crowded):
        return 1.0  # unused
    before, after = (sum(one.on_core for one in some) for some in (base.works, works))
    return after / before if before > 0 else change.cpu if base.feeders.count else 1.0


def _scaled(parts: tuple[Part, ...], change: Change, names: tuple[str, ...]) -> tuple[Part, ...]:
    """The parts with their costs scaled; most changes scale few costs, and there are thousands of parts."""
    factors = attrgetter(*names)(change)
    if not parts or all(factor == 1.0 for factor in factors):
        return parts
    build, values = type(parts[0]), attrgetter(*names)
    return tuple(build(*map(mul, values(part), factors)) for part in parts)


def step_seconds(scenario: Scenario) -> float:
    """Mean seconds per step, the restart of the pipeline at each epoch included."""
    used = BATCHES + scenario.workers * max(1, scenario.prefetch)  # the replay uses no more
    if len(scenario.works) > used:
        scenario = replace(scenario, works=scenario.works[:used])
    return max(scenario.feeders.seconds, scenario.limited, _step_seconds(scenario) + scenario.crowded)


def cost_seconds(scenario: Scenario) -> float:
    """Mean seconds of a turn while workers run, from its batch to its end."""
    pipeline = _Pipeline(scenario)
    arrivals = pipeline.run()
    return pipeline.turned / len(arrivals)


@lru_cache(maxsize=512)  # a report replays 30 different changes, each several times
def _step_seconds(scenario: Scenario) -> float:
    arrivals = _serial(scenario) if scenario.workers == 0 else _Pipeline(scenario).run()
    count = len(arrivals)
    half = count // 2
    slope = (arrivals[-1] - arrivals[half - 1]) / (count - half) if half else arrivals[-1] / count
    epoch = scenario.epoch.steps
    if not epoch:
        return slope
    if epoch <= count:
        return (scenario.epoch.seconds + arrivals[epoch - 1]) / epoch
    return (scenario.epoch.seconds + arrivals[-1] + slope * (epoch - count)) / epoch


def _serial(scenario: Scenario) -> list[float]:
    """One process does everything in turn; with less than one core the CPU parts stretch."""
    stretch = cpu_stretch(scenario, 1.0)
    wide = cpu_stretch(scenario, scenario.threads)
    t, device, arrivals = 0.0, 0.0, []
    for place in range(BATCHES):
        work = scenario.works[place % len(scenario.works)]
        cost = scenario.costs[place % len(scenario.costs)]
        t += work.on_core * stretch + work.storage + work.network + work.wait
        device = max(device, t + cost.lead_in + cost.allocating) + _accelerated(cost)
        t += (
            cost.compute * wide
            + (cost.python + cost.launch + cost.paging + cost.lead_in + cost.collect) * stretch
        )
        t += cost.checkpoint + cost.logging + scenario.sampling + _asleep(scenario, cost)
        t += _exchanging(scenario, cost) * stretch
        t = max(t, device - scenario.ahead * _accelerated(cost))
        arrivals.append(t)
    return arrivals


def _asleep(scenario: Scenario, cost: StepCost) -> float:
    """Seconds of a turn without a core, checkpoints and logging excluded."""
    exchange = 0.0 if cost.device else cost.comm + cost.straggler - _exchanging(scenario, cost)
    return cost.idle + cost.memory + cost.allocating + exchange


def _exchanging(scenario: Scenario, cost: StepCost) -> float:
    """Seconds for which threads of the exchange want a core, while the loop sleeps."""
    return 0.0 if cost.device else cost.comm * scenario.shares.exchanging


def _accelerated(cost: StepCost) -> float:
    """Seconds of the accelerator for a turn; ranks wait for each other on it."""
    exchange = cost.comm + cost.straggler if cost.device else 0.0
    return cost.copying + cost.device + exchange


def cpu_stretch(scenario: Scenario, demand: float) -> float:
    """How much longer CPU work takes than alone, when the job asks for ``demand`` cores.

    With other processes, the job gets its fair share of the cores or what they leave, whichever is more.
    """
    fair = (demand + scenario.strangers) / scenario.cores
    left = demand / max(scenario.cores - scenario.strangers, 0.05 * scenario.cores)
    return max(1.0, demand / scenario.cores, min(fair, left))


def _together(shared: float, operator_s: float) -> float:
    """The share of their speed that is left to threads that compute together, on so many shared cores, in
    operators that take so long."""
    long = log(max(operator_s, SHORT_S) / SHORT_S) / log(LONG_S / SHORT_S)
    one, two = (a + (b - a) * min(1.0, long) for a, b in zip(TOGETHER, TOGETHER_LONG, strict=True))
    return 1 - (1 - one) * min(1.0, shared) - (one - two) * min(1.0, max(0.0, shared - 1))


@dataclass
class _Job:
    """A batch in progress: what is left of it, its shares of CPU and storage, the cores it wants,
    and what its wake-ups cost where no core is free."""

    batch: int
    cpu: float
    stored: float
    rest: float
    width: float = 1.0
    waking: float = 0.0

    def __post_init__(self) -> None:
        alone, self.left = self.cpu + self.stored + self.rest, 1.0
        self.computing, self.reading = self.cpu / alone, self.stored / alone  # shares of its time, alone

    def whole(self, load: _Load) -> float:
        """Seconds that all of it takes under a load."""
        cpu = load.cpu if self.width <= 1.0 else load.cost
        return self.cpu * cpu + self.stored * load.io + self.rest + self.waking * load.full


@dataclass(frozen=True)
class _Load:
    """How much slower CPU work, that of a turn on several cores and storage reads run than alone; ``full`` is
    the chance that a thread that wakes finds no core free."""

    cpu: float
    cost: float
    io: float
    full: float


class _Pipeline:
    """The event loop: between two events every party advances at a constant rate."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.workers: list[_Job | None] = [None] * scenario.workers
        self.queues: list[list[int]] = [[] for _ in range(scenario.workers)]
        self.ready: dict[int, int] = {}  # batches in the order in which they were finished, and by whom
        self.given = [0] * scenario.workers  # batches that a worker has, or that wait for the loop
        self.next_task = self.next_place = 0
        self.received = 0
        self.serving: list[_Job] = []  # descriptors being handed out; the loop does not wait for them
        self.cost: _Job | None = None
        self.device = 0.0  # when the accelerator will have done all that it was given
        self.hold = 0.0  # until when the loop must wait for it
        self.now = self.turned = self.began = 0.0
        self.arrivals: list[float] = []

    def run(self) -> list[float]:
        """The instants at which the loop finishes its turns."""
        for _ in range(self.scenario.workers * max(1, self.scenario.prefetch)):
            self._hand_out()
        guard = 0
        while len(self.arrivals) < BATCHES and guard < 50 * BATCHES:
            guard += 1
            self._assign()
            self._receive()
            self._advance()
        return self.arrivals or [0.0]

    def _hand_out(self) -> None:
        """The next index goes to the next worker; out of order, as in torch, to the next that has room."""
        for _ in self.queues:
            place = self.next_place
            self.next_place = (place + 1) % len(self.queues)
            if self.scenario.in_order or self.given[place] < max(1, self.scenario.prefetch):
                break
        self.queues[place].append(self.next_task)
        self.given[place] += 1
        self.next_task += 1

    def _assign(self) -> None:
        for place, job in enumerate(self.workers):
            if job is None and self.queues[place]:
                batch = self.queues[place].pop(0)
                work = self.scenario.works[batch % len(self.scenario.works)]
                cpu = work.on_core + self.scenario.transport.serialise - self.scenario.transport.serving
                rest = work.network + work.wait + self.scenario.transport.delay
                self.workers[place] = _Job(batch, cpu, work.storage, rest + LITTLE)

    def _receive(self) -> None:
        """The loop takes the next batch when it is free and the batch is there."""
        if self.cost is not None or not self.ready:
            return
        wanted = self.received if self.scenario.in_order else next(iter(self.ready))
        if wanted not in self.ready:
            return
        self.given[self.ready.pop(wanted)] -= 1
        if self.scenario.transport.serving > 0:
            self.serving.append(_Job(wanted, self.scenario.transport.serving, 0.0, LITTLE))
        cost = self.scenario.costs[self.received % len(self.scenario.costs)]
        self.received += 1
        self.began = self.now
        self._hand_out()
        scenario, written = self.scenario, cost.checkpoint + cost.logging
        alone = cost.python + cost.launch + cost.paging + cost.lead_in + cost.collect
        alone += scenario.transport.hand_over + scenario.sampling + _exchanging(scenario, cost)
        alone += written * (1 - scenario.shares.stored)
        cpu = cost.compute + alone
        blocked = scenario.transport.transfer + _asleep(scenario, cost) + written * scenario.shares.stored
        width = (cost.compute * scenario.threads + alone) / cpu if cpu > 0 else 1.0
        self.cost = _Job(wanted, cpu, 0.0, blocked + LITTLE, width, scenario.transport.waking)
        self.device = max(self.device, self.now + cost.lead_in + cost.allocating) + _accelerated(cost)
        self.hold = self.device - scenario.ahead * _accelerated(cost)

    def _advance(self) -> None:
        """Run until the first party finishes."""
        busy = [*self.serving, *(job for job in self.workers if job is not None)]
        load = self._load(busy)
        jobs = busy + ([self.cost] if self.cost is not None else [])
        if not jobs:
            return
        wholes = [job.whole(load) for job in jobs]
        elapsed = min([job.left * whole for job, whole in zip(jobs, wholes, strict=True)])
        self.now += elapsed
        for job, whole in zip(jobs, wholes, strict=True):
            job.left -= elapsed / max(whole, LITTLE)
        for place, worker in enumerate(self.workers):
            if worker is not None and worker.left <= 1e-9:
                self.ready[worker.batch] = place
                self.workers[place] = None
        self.serving = [job for job in self.serving if job.left > 1e-9]
        if self.cost is not None and self.cost.left <= 1e-9:
            self._finish(self.cost)

    def _finish(self, cost: _Job) -> None:
        """The loop ends its turn; it may have to wait for the accelerator."""
        if self.hold > self.now + 1e-9:
            self.cost = _Job(cost.batch, 0.0, 0.0, self.hold - self.now)
        else:
            self.arrivals.append(self.now)
            self.turned += self.now - self.began
            self.cost = None

    def _load(self, busy: list[_Job]) -> _Load:
        """The demand for cores and storage at this instant."""
        scenario, cost = self.scenario, self.cost
        workers = demand = sum([job.computing for job in busy])
        if cost is not None:
            demand += cost.width * cost.computing
        cpu = together = self._stretch(demand, busy)
        if cost is not None and cost.width > 1.0:
            shared = max(0.0, workers + scenario.strangers + ceil(scenario.threads) - scenario.cores)
            left = _together(shared, scenario.operator_s) * min(1.0, 2 * scenario.cores / demand)
            together = max(cpu, 1 / (1 - cost.computing * (1 - left)))
            if workers > 0:
                cpu = max(cpu, 1 / (1 - cost.computing * (1 - SHARED) * min(1.0, shared / workers)))
        reading = sum([job.reading for job in busy])
        full = min(1.0, max(0.0, workers + scenario.strangers - scenario.cores + 1))
        return _Load(cpu, together, max(1.0, reading / (scenario.streams or inf)), full)

    def _stretch(self, demand: float, busy: list[_Job]) -> float:
        """How much longer CPU work takes: a job with part of a core wants it for a larger part of its time,
        so demand is solved for until it fits the cores."""
        jobs = busy if self.cost is None else [*busy, self.cost]
        stretch = cpu_stretch(self.scenario, demand)
        for _ in range(SETTLES):
            if stretch <= 1.0:
                break
            demand = sum(
                [job.width * job.computing * stretch / (1 + job.computing * (stretch - 1)) for job in jobs]
            )
            stretch = cpu_stretch(self.scenario, demand)
        return stretch
