"""Workers, or libraries inside them, start more threads than there are cores, which fight for them.

## What it means
NumPy's BLAS, OpenCV, Arrow and others compute with as many threads as there are cores, in every worker. Torch
sets itself to one thread there; they do not.

## Why it costs
W workers times N threads want N cores. A parallel region ends with its slowest thread, the others spin
meanwhile: CPU is burnt, and nothing is computed.

## How it is measured
CPU of the process's other threads during a fetch, less what the pipe's feeder thread needs to serialise a
batch; and how long the fetching thread stood ready without a core (schedstat). Of a pool of the script's own
processes or threads: how many of them run, by stack samples, how long the training loop had no core, and what
the processes' other threads use beside their main ones, which wait for a core (schedstat, every two seconds).

## Thresholds
Other threads use 0.2 of a worker's CPU, and a fetch waits for a core for 0.25 of its time. A pool of the
script's own: more of it than cores, which a sixth of the step waits for; or processes whose other threads use
0.2 of their CPU while the main ones wait for a core for 0.25 of their time.

## When this advice is wrong
One worker beside idle cores may use them with a pool. `OMP_NUM_THREADS=1` in the environment also takes the
model's threads away, when it computes on the CPU: set the limit inside the workers.

## Prediction
Replay. Nothing where the pool's work was all useful; at best what a NumPy data set on two cores gave: 85.0 to
15.8 ms a batch (measured); likely halfway, in proportion, between that and the CPU of the fetching thread
alone (ours: of two trainings that alone was too little, x1.9 for x3.6 and x1.7 for x3.1). A pool of the
script's own: all of the time in which the loop had no core (x1.56 for x1.52), cautiously half of it. Its
processes' other threads: as in workers (x2.1 for x1.9). By hand, two and four processes of two threads each
on two cores took 1.1 times as long where a product takes 50 ms, and 2 to 171 times where it takes less.

## References
threadpoolctl; OpenBLAS, "OPENBLAS_NUM_THREADS"; OpenCV, "setNumThreads"; torch.utils.data, "worker_init_fn".
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from ..analyse.causes import helper_threads, too_many_feeders, without_feeders
from ..analyse.host import OTHERS_SHARE, pool_cpu
from ..analyse.predict import WORTH
from ..analyse.verdict import CROWDED
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    FeederLoad,
    Finding,
    Inputs,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import BOOKS, loader_call, spread, wait_evidence, waits
from .parts.entry import Case, Entry, dataloader_loop, given, inputs_of, patient
from .parts.lines import crowd_evidence, hottest_place, line_evidence
from .parts.rewriting import Code

ID = "worker-thread-oversubscription"
BEST = 15.8 / 85.0  # of a batch's time, one thread over a pool [catalogue F05, measured]

ONE_THREAD = """\
def one_thread(_):                                   # import threadpoolctl, cv2
    threadpoolctl.threadpool_limits(1); cv2.setNumThreads(0)
{call}
# or, where the model needs no CPU: OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python train.py"""
LIMIT = Proposal(
    id="worker-threads-1",
    title="one thread for the libraries inside each worker",
    fix=Fix(
        "limit the pools when a worker starts",
        ONE_THREAD.format(call="DataLoader(..., worker_init_fn=one_thread)"),
    ),
    apply="hook",
    risk="sums in another order change the last digits",
    treatments=(Treatment("worker_threads"),),
)
OWN_POOL = """\
def one_thread(): torch.set_num_threads(1)           # threadpoolctl and cv2 limit what else computes
pool = multiprocessing.Pool({count}, initializer=one_thread)"""
SHRINK_POOL = Proposal(
    id="worker-threads-1",
    title="as many threads or processes that make batches as there are cores, each with one thread",
    fix=Fix("limit them where they are started", OWN_POOL.format(count=2)),
    risk="sums in another order change the last digits",
)


def timed_fetches_or_pool(diagnosis: Diagnosis) -> str | None:
    """Timed fetches, where no crowded pool of the script's own makes the batches."""
    return None if _has_crowded_pool(diagnosis) else dataloader_loop(diagnosis)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when pools inside several workers crowd the cores and the loop waits."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    if _has_crowded_pool(diagnosis):
        return _own_pool(diagnosis, scenario)
    loader = given(diagnosis.loader)
    if loader.num_workers < 2:
        return None
    pool = pool_cpu(inputs, scenario.transport.serialise)
    if not waits(diagnosis) or pool < OTHERS_SHARE * (inputs.cpu + pool):
        return None
    if not inputs.queue and diagnosis.host.job_cores is None:
        return Abstention(ID, "how long fetches wait for a core (schedstat)")
    crowd = helper_threads(scenario, inputs, diagnosis.host)
    if crowd == 1.0:
        return None
    factor = _alone(scenario, crowd)
    if factor[1] < WORTH:
        return None
    share = pool / (inputs.cpu + pool)
    evidence = [
        Evidence("share of the workers' CPU that threads beside the fetching one use", "pool_share", share,
                 BOOKS),
        Evidence("share of a fetch that it waits for a core", "fetch_queue_share", inputs.queue / inputs.wall,
                 "schedstat"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]  # fmt: skip
    call = loader_call(loader, worker_init_fn=Code("one_thread"))
    proposal = replace(LIMIT.at(loader.location, ONE_THREAD.format(call=call)), factor=factor)
    return Finding(ID, "input.oversubscribed", evidence, [proposal], hottest_place(diagnosis))


def _has_crowded_pool(diagnosis: Diagnosis) -> bool:
    scenario = diagnosis.scenario
    return scenario is not None and (
        too_many_feeders(scenario) or (scenario.feeders.count > 0 and diagnosis.host.helped > 1.0)
    )


def _alone(scenario: Scenario, crowd: float) -> tuple[float, float, float]:
    """What the replay gains where the threads that make batches have no helpers."""
    best = min(1 / crowd, BEST)
    likely = Change(cpu=sqrt(best / crowd))  # their own CPU holds their spinning for the others
    return spread(scenario, Change(), likely, Change(cpu=best))


def _own_pool(diagnosis: Diagnosis, scenario: Scenario) -> Finding | None:
    """The same of threads and processes that the script itself started."""
    gained, helped = without_feeders(scenario), diagnosis.host.helped
    factor = (2 * gained / (1 + gained), gained, gained)
    beside = []
    if helped > 1.0:
        factor = max(factor, _alone(scenario, helped), key=lambda one: one[1])
        text = "CPU of the processes that feed the loop over that of their main threads"
        beside = [Evidence(text, "helped", helped, "schedstat")]
    if factor[1] < CROWDED:
        return None
    count = max(1, int(scenario.cores))
    evidence = [
        *beside,
        *crowd_evidence(diagnosis),
        Evidence("cores that the job may use", "cores", scenario.cores, "affinity and control group"),
        *line_evidence(diagnosis),
    ]
    proposal = replace(SHRINK_POOL.at(None, OWN_POOL.format(count=count)), factor=factor)
    return Finding(ID, "input.oversubscribed", evidence, [proposal], hottest_place(diagnosis))


def _case(pool: float, queue: float, workers: int = 2) -> Diagnosis:
    """20 ms of CPU a batch in the fetching thread, and so much in a pool; the fetch queues for a core."""
    work, cost = BatchCost(0.02 + pool), StepCost(0.0, 0.002)
    inputs = replace(
        inputs_of(BatchCost(0.02), workers, 0.02), other_cpu=pool, queue=queue, wall=0.02 + queue
    )
    scene = Scenario((work,), (cost,), workers=workers, cores=2.0)
    base = patient(work, cost, workers=workers, inputs=inputs, scenario=scene)
    return replace(base, host=replace(base.host, job_cores=None))


def _pooled(feeders: int) -> Diagnosis:
    """A loop of 20 ms that has no core for half of it, beside so many processes of a pool."""
    scene = Scenario(
        (BatchCost(0.001),), (StepCost(0.009),), cores=2.0, feeders=FeederLoad(feeders), crowded=0.01
    )
    return replace(_case(0.0, 0.0), scenario=scene, loader=None, inputs=Inputs(), step_s=0.02)


def _helping(helped: float) -> Diagnosis:
    """Two processes of a pool make batches in 40 ms, while the loop sleeps."""
    scene = Scenario((BatchCost(0.04),), (StepCost(0.009),), cores=2.0, feeders=FeederLoad(2))
    sick = replace(_pooled(2), scenario=scene, step_s=0.05)
    return replace(sick, host=replace(sick.host, helped=helped))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("NumPy multiplies on all cores in each worker", _case(0.02, 0.025), "fires", "worker-threads-1"),
        Case("one worker beside an idle core", _case(0.02, 0.001, 1), "silent"),
        Case("pools with cores of their own", _case(0.02, 0.001), "silent"),
        Case("only the pipe's feeder is busy", _case(0.001, 0.025), "silent"),
        Case("nobody counted waits for a core", _case(0.02, 0.0), "abstains"),
        Case("four processes of a pool on two cores", _pooled(4), "fires", "worker-threads-1"),
        Case("two processes of a pool on two cores", _pooled(2), "abstains"),
        Case("both compute with two threads each", _helping(2.0), "fires", "worker-threads-1"),
        Case("no fetch was timed", replace(_case(0.02, 0.025), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(
    ID, "input.oversubscribed", examine, needs=(timed_fetches_or_pool,), remedies=(LIMIT, SHRINK_POOL)
)
