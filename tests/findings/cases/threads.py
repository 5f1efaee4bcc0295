"""Cases of the findings in threads.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.diagnosis import (
    BatchCost,
    Diagnosis,
    FeederLoad,
    HostLoad,
    Inputs,
    Scenario,
    StepCost,
)
from bottleneck_doctor.model.instruments import Operator
from bottleneck_doctor.model.profile import Computing
from bottleneck_doctor.model.run import Process
from tests.findings.builders import (
    Case,
    abstains,
    cpu_run,
    dispatch_like,
    fires,
    inputs_of,
    silent,
    steady_run,
)

# cpu-threads-misset
COST = StepCost(0.02)
TABLE = [Operator("aten::addmm", 6.0, 0.012), Operator("aten::mm", 6.0, 0.006)]


def _threads_case(
    threads: int | None, large: float | None = 0.9, queue: float = 0.0, foreign: float = 0.0
) -> Diagnosis:
    """A model that computes for 20 ms on four cores; batches cost nothing."""
    anatomies = [dispatch_like(COST, large=large)] if large is not None else []
    sick = cpu_run(COST, Computing(anatomies=anatomies), TABLE if large is not None else [])
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=threads)
    return replace(
        sick, profile=replace(sick.profile, processes=[trainer]),
        host=HostLoad(cores=4.0, job_cores=1.0, foreign_cores=foreign),
        steps=[replace(step, queue=queue * step.wall) for step in sick.steps],
        scenario=replace(sick.scenario, cores=4.0) if sick.scenario else None,
    )  # fmt: skip


def cpu_threads_misset() -> tuple[Case, ...]:
    return (
        fires("one thread for large products on four cores", _threads_case(1), "set-threads"),
        fires("sixteen threads fight for four cores", _threads_case(16, queue=0.5), "set-threads"),
        fires(
            "four threads next to a busy process on four cores", _threads_case(4, foreign=1.0), "set-threads"
        ),
        silent("one thread for many small operators", _threads_case(1, large=0.1)),
        abstains("no step was profiled", _threads_case(1, large=None)),
    )


# cpu-stolen-by-others
def _stolen_case(foreign: float | None, online: int = 4) -> Diagnosis:
    """Four workers decode on four cores, of which other processes use ``foreign``; the loop takes 3 ms."""
    work = BatchCost(0.04)
    rest = 0.0 if online > 4 else foreign or 0.0
    scene = Scenario((work,), (StepCost(0.0, 0.003),), workers=4, cores=4.0, strangers=rest)
    sick = steady_run(work, StepCost(0.0, 0.003), workers=4, cores=4.0, scenario=scene)
    machine = replace(sick.profile.machine, cores_online=online, cores=4.0)
    host = HostLoad(cores=4.0, job_cores=2.0, foreign_cores=foreign)
    return replace(sick, profile=replace(sick.profile, machine=machine), host=host)


def cpu_stolen_by_others() -> tuple[Case, ...]:
    return (
        fires("others take two of four cores", _stolen_case(2.0), "isolate-cpus"),
        silent("a quarter of a core", _stolen_case(0.3)),
        silent("others on other cores", _stolen_case(2.0, online=64)),
        abstains("the process tree was not counted", _stolen_case(None)),
    )


# cgroup-cpu-throttled
def _throttled_case(throttled: float | None, quota: float | None = 1.0, threads: int = 4) -> Diagnosis:
    """A model on ``threads`` threads, with a CPU quota of ``quota`` cores."""
    scene = Scenario((BatchCost(1e-4),), (StepCost(0.01),), cores=quota or 4.0, threads=float(threads))
    base = steady_run(BatchCost(1e-4), StepCost(0.01), cores=quota or 4.0, scenario=scene)
    machine = replace(base.profile.machine, quota_cores=quota, cores=quota or 4.0, affinity_cores=4)
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=threads)
    facts = replace(base.profile, machine=machine, processes=[trainer])
    return replace(base, profile=facts, host=HostLoad(cores=quota or 4.0, throttled=throttled))


def cgroup_cpu_throttled() -> tuple[Case, ...]:
    return (
        fires("four threads on one core's time", _throttled_case(0.9), "match-threads-to-quota"),
        fires("two cores' time, two threads", _throttled_case(0.9, 2.0, 2)),
        silent("hardly ever stopped", _throttled_case(0.01)),
        silent("no quota", _throttled_case(None, None)),
        abstains("a quota without counts", _throttled_case(None)),
    )


# worker-thread-oversubscription
def _oversubscribed_case(pool: float, queue: float, workers: int = 2) -> Diagnosis:
    """20 ms of CPU a batch in the fetching thread, ``pool`` in a pool; a fetch waits ``queue`` for a core."""
    work, cost = BatchCost(0.02 + pool), StepCost(0.0, 0.002)
    inputs = replace(
        inputs_of(BatchCost(0.02), workers, 0.02), other_cpu=pool, queue=queue, wall=0.02 + queue
    )
    scene = Scenario((work,), (cost,), workers=workers, cores=2.0)
    base = steady_run(work, cost, workers=workers, inputs=inputs, scenario=scene)
    return replace(base, host=replace(base.host, job_cores=None))


def _pooled(feeders: int) -> Diagnosis:
    """A step of 20 ms, half of it without a core, and a pool of ``feeders`` processes."""
    scene = Scenario(
        (BatchCost(0.001),), (StepCost(0.009),), cores=2.0, feeders=FeederLoad(feeders), crowded=0.01
    )
    return replace(_oversubscribed_case(0.0, 0.0), scenario=scene, loader=None, inputs=Inputs(), step_s=0.02)


def _helping(helped: float) -> Diagnosis:
    """Two processes of a pool make batches in 40 ms, while the loop sleeps."""
    scene = Scenario((BatchCost(0.04),), (StepCost(0.009),), cores=2.0, feeders=FeederLoad(2))
    sick = replace(_pooled(2), scenario=scene, step_s=0.05)
    return replace(sick, host=replace(sick.host, helped=helped))


def worker_thread_oversubscription() -> tuple[Case, ...]:
    return (
        fires("NumPy's pools in each worker", _oversubscribed_case(0.02, 0.025), "worker-threads-1"),
        silent("one worker and an idle core", _oversubscribed_case(0.02, 0.001, 1)),
        silent("only the pipe's feeder is busy", _oversubscribed_case(0.001, 0.025)),
        abstains("waits for a core were not counted", _oversubscribed_case(0.02, 0.0)),
        fires("four processes of a pool on two cores", _pooled(4), "worker-threads-1"),
        fires("both compute with two threads each", _helping(2.0), "worker-threads-1"),
    )
