"""CPU cores and threads: too many, too few, taken by others, limited by a control group."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from ..analyse.host import pool_cpu
from ..analyse.predict import WORTH, helper_threads, too_many_feeders, without_feeders
from ..analyse.shares import MOST, NOTICED, PART
from ..analyse.threads import Threads, judge_threads
from ..analyse.verdict import CROWDED
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import BOOKS, FOREIGN_CORES, PROFILER, step_share, threads_set_to, wait_evidence, waits
from .lines import crowd_evidence, hottest_place, line_evidence
from .registry import OnCpu, dataloader_loop, finding, given, snippet
from .remedies import Code, each, loader_call, priced, spread

# cpu-threads-misset
STOLEN_BOOKS = "/proc/stat less the process tree"
THREADS_SNIPPET = "OMP_NUM_THREADS={count} python train.py  # or torch.set_num_threads({count})"
SET_THREADS = Proposal(
    id="set-threads",
    title="let torch compute with another number of threads",
    fix=Fix("in the environment", THREADS_SNIPPET.format(count=4)),
    apply="env",
    risk="results may differ in the last digits; cores that others take make all threads wait",
    treatments=threads_set_to(4),
)


@finding("model.threads", SET_THREADS, needs=(OnCpu("a GPU computes without these threads", profiled=False),))
def cpu_threads_misset(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when another number of threads would likely be faster."""
    judged, held, others = _judged(diagnosis), step_share(diagnosis, "held"), diagnosis.host.foreign_cores
    if judged.count is None:
        return "how many threads torch computes with"
    if judged.count == 1 and judged.large is None and (judged.idle or 0.0) > MOST:
        return "a profiled step: whether operators are large enough to be divided"
    if not judged.trouble or judged.factor[2] < WORTH:
        return None
    known = (
        ("threads that torch computes with", "torch_threads", float(judged.count), "torch.get_num_threads"),
        ("cores that the job may use", "cores", diagnosis.host.cores, "affinity and control group"),
        (
            "cores that others used",
            "foreign_cores",
            others if judged.trouble == "shared" else None,
            STOLEN_BOOKS,
        ),
        ("cores that lay idle", "idle_cores", judged.idle, "/proc/stat"),
        ("share of CPU in operators of 0.2 ms and more", "large_operator_share", judged.large, PROFILER),
        ("share of the step for which the loop had no core", "held_share", held, "schedstat"),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    count = judged.wanted
    proposal = replace(
        SET_THREADS.at(None, THREADS_SNIPPET.format(count=count)),
        title=f"let torch compute with {count} thread{'s' if count > 1 else ''}",
        factor=judged.factor,
        most=judged.most,
        basis="replay" if judged.most is None else "bound",
        treatments=threads_set_to(count),
    )
    return Finding("cpu-threads-misset", "model.threads", evidence, [proposal])


def _judged(diagnosis: Diagnosis) -> Threads:
    held = step_share(diagnosis, "held")
    return judge_threads(diagnosis.profile, diagnosis.loop, diagnosis.scenario, diagnosis.host, held)


# cpu-stolen-by-others
ISOLATE = Proposal(
    id="isolate-cpus",
    title="give the job cores of its own",
    fix=Fix(
        "or ask for a machine alone", "renice -n 19 -p PID    # each of the others; or taskset -cp CORES PID"
    ),
    change=Change(strangers=0.0),
    apply="admin",
    risk="the others become slower",
)


@finding("input.oversubscribed", ISOLATE)
def cpu_stolen_by_others(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when other processes use cores that the job may use."""
    host, inputs = diagnosis.host, diagnosis.inputs
    if diagnosis.scenario is None or host.foreign_cores is None:
        return "CPU time of the machine and of the job's process tree"
    out_of_reach = max(0.0, diagnosis.profile.machine.cores_online - host.cores)
    if host.foreign_cores - out_of_reach < FOREIGN_CORES:
        return None
    queue = inputs.queue / max(inputs.cpu + inputs.queue, 1e-12)
    known = (
        ("cores that others used", "foreign_cores", host.foreign_cores, STOLEN_BOOKS),
        ("cores that the job may use", "cores", host.cores, "affinity, quota"),
        ("cores that the job used", "job_cores", host.job_cores, "process tree"),
        ("share of a fetch's runnable time without a core", "fetch_queue_share", queue, "schedstat"),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    alone, judged = ISOLATE, _judged(diagnosis)
    if judged.trouble == "shared":  # by how much these delay the model's threads no clock tells
        alone = replace(ISOLATE, change=None, factor=judged.factor, most=judged.most, basis="bound")
    return Finding("cpu-stolen-by-others", _cause(diagnosis), evidence, [alone])


def _cause(diagnosis: Diagnosis) -> str:
    """The verdict's cause where cores are the limit; else too few cores are not what the verdict is about."""
    verdict = diagnosis.verdict
    return verdict.cause if verdict.bound == "cpu" else "input.oversubscribed"


# cgroup-cpu-throttled
CPU_LEFT = (1.0, 0.4, 0.06)  # of an operator's CPU when its threads fit: none spared, 0.24 and 0.06 measured
QUOTA_SNIPPET = "OMP_NUM_THREADS={count} python train.py  # num_workers <= quota - threads"
FEWER_THREADS = Proposal(
    id="match-threads-to-quota",
    title="use as many threads as the quota grants cores",
    fix=Fix("threads beyond the quota only wait for each other", QUOTA_SNIPPET.format(count=2)),
    apply="env",
    basis="bound",
    treatments=threads_set_to(2),
)
MORE_CORES = Proposal(
    id="more-cores",
    title="give the job more cores",
    fix=Fix("and the workers with them", "docker run --cpus=4 ...    # kubernetes: resources.limits.cpu"),
    apply="admin",
    effort="hours",
    risk="costs money; two hyperthreads are not two cores",
)


@finding("input.oversubscribed", FEWER_THREADS, MORE_CORES)
def cgroup_cpu_throttled(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the CPU quota throttles the job."""
    machine, host, scenario = diagnosis.profile.machine, diagnosis.host, diagnosis.scenario
    if machine.quota_cores is None or scenario is None:
        return None
    if host.throttled is None:
        return "the quota's periods, from the control group's cpu.stat"
    if host.throttled <= NOTICED:
        return None
    trainers = [one for one in diagnosis.profile.processes if one.role == "trainer"]
    threads = next((one.torch_threads for one in trainers if one.torch_threads), None)
    known = (
        ("share of the periods in which the job was stopped", "throttled_share", host.throttled, "cpu.stat"),
        ("CPU quota in cores", "quota_cores", machine.quota_cores, "control group"),
        ("cores that the job may run on", "affinity_cores", machine.affinity_cores, "affinity"),
        ("threads that the model computes with", "torch_threads", threads, "torch.get_num_threads"),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    proposals, fitting = [], max(1, int(machine.quota_cores))
    if threads and threads > fitting and scenario.threads > fitting:
        wide = scenario.threads / fitting  # the same CPU time on fewer threads
        changes = [Change(threads=float(fitting), compute=wide * left) for left in CPU_LEFT]
        fewer = FEWER_THREADS.at(None, QUOTA_SNIPPET.format(count=fitting))
        fewer = replace(fewer, treatments=threads_set_to(fitting))
        proposals.append(priced(fewer, scenario, *changes, most=changes[-1]))
    cores = float(machine.affinity_cores or machine.cores_online)
    if cores > machine.cores:
        command = f"docker run --cpus={cores:g} ...    # kubernetes: resources.limits.cpu"
        proposals.append(replace(MORE_CORES.at(None, command), change=Change(cores=cores)))
    return Finding("cgroup-cpu-throttled", _cause(diagnosis), evidence, proposals)


# worker-thread-oversubscription
OVERSUBSCRIBED, CAUSE = "worker-thread-oversubscription", "input.oversubscribed"
BEST = 15.8 / 85.0  # of a batch's time, one thread over a pool (measured: NumPy products on two cores)
ONE_THREAD = snippet("threads", "ONE_THREAD")
LIMIT = Proposal(
    id="worker-threads-1",
    title="one thread for the libraries inside each worker",
    fix=Fix("when a worker starts", ONE_THREAD.format(call="DataLoader(..., worker_init_fn=one_thread)")),
    apply="hook",
    risk="sums in another order change the last digits",
    treatments=(Treatment("worker_threads"),),
)
OWN_POOL = snippet("threads", "OWN_POOL")
SHRINK_POOL = Proposal(
    id="worker-threads-1",
    title="start one process or thread that makes batches per core, each with one thread",
    fix=Fix("limit them where they are started", OWN_POOL.format(count=2)),
    risk="sums in another order change the last digits",
)


def timed_fetches_or_pool(diagnosis: Diagnosis) -> str | None:
    """Needs timed fetches, unless an oversubscribed pool of the script's own makes the batches."""
    return None if _has_crowded_pool(diagnosis) else dataloader_loop(diagnosis)


@finding("input.oversubscribed", LIMIT, SHRINK_POOL, needs=(timed_fetches_or_pool,))
def worker_thread_oversubscription(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when thread pools in several workers oversubscribe the cores and the loop waits."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    if _has_crowded_pool(diagnosis):
        return _own_pool(diagnosis, scenario)
    loader = given(diagnosis.loader)
    pool = pool_cpu(inputs, scenario.transport.serialise)
    share = pool / max(inputs.cpu + pool, 1e-12)
    if loader.num_workers < 2 or not waits(diagnosis) or share < PART:
        return None
    if not inputs.queue and diagnosis.host.job_cores is None:
        return "how long fetches wait for a core (schedstat)"
    crowd, queue = helper_threads(scenario, inputs, diagnosis.host), inputs.queue / inputs.wall
    if crowd == 1.0:
        return None
    evidence = [
        Evidence("share of the workers' CPU outside the fetching thread", "pool_share", share, BOOKS),
        Evidence("share of a fetch that it waits for a core", "fetch_queue_share", queue, "schedstat"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    call = loader_call(loader, worker_init_fn=Code("one_thread"))
    limit = LIMIT.at(loader.location, ONE_THREAD.format(call=call))
    proposals = [priced(limit, scenario, *_alone(crowd))]
    return Finding(OVERSUBSCRIBED, CAUSE, evidence, proposals, hottest_place(diagnosis))


def _has_crowded_pool(diagnosis: Diagnosis) -> bool:
    scenario = diagnosis.scenario
    return scenario is not None and (
        too_many_feeders(scenario) or (scenario.feeders.count > 0 and diagnosis.host.helped > 1.0)
    )


def _alone(crowd: float) -> list[Change]:
    """The threads that make batches have no pool threads: a batch's CPU includes spinning for these."""
    best = min(1 / crowd, BEST)
    return each(cpu=(1.0, sqrt(best / crowd), best))


def _own_pool(diagnosis: Diagnosis, scenario: Scenario) -> Finding | None:
    """The same finding for threads and processes that the script itself started."""
    gained, helped = without_feeders(scenario), diagnosis.host.helped
    factor, evidence = (2 * gained / (1 + gained), gained, gained), crowd_evidence(diagnosis)
    if helped > 1.0:
        factor = max(factor, spread(scenario, *_alone(helped)), key=lambda one: one[1])
        text = "CPU of the processes that feed the loop over that of their main threads"
        evidence.insert(0, Evidence(text, "helped", helped, "schedstat"))
    if factor[1] < CROWDED:
        return None
    cores = Evidence("cores that the job may use", "cores", scenario.cores, "affinity and control group")
    evidence += [cores, *line_evidence(diagnosis)]
    pool = SHRINK_POOL.at(None, OWN_POOL.format(count=max(1, int(scenario.cores))))
    proposals = [replace(pool, factor=factor)]
    return Finding(OVERSUBSCRIBED, CAUSE, evidence, proposals, hottest_place(diagnosis))
