"""The container may use less CPU time than the cores it sees: it is stopped for a part of each period.

## What it means
A quota grants so much CPU time per period, usually 100 ms. When the job's threads have used it up, all of
them stand still until the next period begins.

## Why it costs
torch and the loader look at the cores that they may run on, not at the quota, and start too many threads.
Threads of a parallel operator wait for each other by spinning, which uses up the quota without result.

## How it is measured
Periods, and periods that ended early, from the control group; the quota; the threads of the model. A stopped
thread counts as waiting for a core.

## Thresholds
More than 5 % of the periods end early.

## When this advice is wrong
A short burst (imports, the first epoch) may be stopped and the steady state not. Bursts that fit a period on
average are stopped as well when the quota is just right.

## Prediction
Replay with all cores that the affinity allows, for a higher quota. Threads that match the quota: a range,
from no CPU spared to as much as was measured with two threads (on half a core four times the work per
second, on one core of a busy machine up to seventeen times).

## References
The kernel's documentation: "CFS Bandwidth Control", cgroup v2 `cpu.max`, `cpu.stat`; PyTorch, "CPU
threading".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    HostLoad,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.report import Evidence, Fix
from ..model.run import Process
from .parts.advice import spread
from .parts.computing import threads_set_to
from .parts.entry import Case, Entry, patient

ID = "cgroup-cpu-throttled"
THROTTLED = 0.05  # of the periods end early [catalogue F56]
CPU_LEFT = (1.0, 0.4, 0.06)  # of an operator's CPU when its threads fit: none spared, 0.24 and 0.06 measured

TOLD = "OMP_NUM_THREADS={count} python train.py      # and num_workers at most quota less threads"
FEWER_THREADS = Proposal(
    id="match-threads-to-quota",
    title="use as many threads as the quota grants cores",
    fix=Fix("threads beyond the quota only wait for each other", TOLD.format(count=2)),
    apply="env",
    basis="bound",
    treatments=threads_set_to(2),
)
RAISE_QUOTA = Proposal(
    id="more-cores",
    title="raise the container's CPU quota",
    fix=Fix(
        "ask for the cores that the job sees", "docker run --cpus=8 ...    # kubernetes: resources.limits.cpu"
    ),
    apply="admin",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the quota stops the job."""
    machine, host = diagnosis.profile.machine, diagnosis.host
    if machine.quota_cores is None or diagnosis.scenario is None:
        return None
    if host.throttled is None:
        return Abstention(ID, "the quota's periods, from the control group's cpu.stat")
    if host.throttled <= THROTTLED:
        return None
    threads = _threads(diagnosis)
    known = (
        ("share of the periods in which the job was stopped", "throttled_share", host.throttled, "cpu.stat"),
        ("cores' worth of CPU time that it may use", "quota_cores", machine.quota_cores, "control group"),
        ("cores that it may run on", "affinity_cores", machine.affinity_cores, "affinity"),
        ("threads that the model computes with", "torch_threads", threads, "torch.get_num_threads"),
    )
    evidence = [Evidence(*one) for one in known if one[2] is not None]
    cause = diagnosis.verdict.cause if diagnosis.verdict.bound == "cpu" else "input.oversubscribed"
    return Finding(ID, cause, evidence, _fewer_threads(diagnosis, threads) + _more_cores(diagnosis))


def _threads(diagnosis: Diagnosis) -> int | None:
    trainers = [one for one in diagnosis.profile.processes if one.role == "trainer" and one.torch_threads]
    return trainers[0].torch_threads if trainers else None


def _fewer_threads(diagnosis: Diagnosis, threads: int | None) -> list[Proposal]:
    """As many threads as the quota feeds, where the model uses more."""
    scenario, quota = diagnosis.scenario, diagnosis.profile.machine.quota_cores or 1.0
    fitting = max(1, int(quota))
    if scenario is None or not threads or threads <= fitting or scenario.threads <= fitting:
        return []
    wide = scenario.threads / fitting  # the same CPU time on fewer threads
    low, likely, high = (Change(threads=float(fitting), compute=wide * left) for left in CPU_LEFT)
    return [
        replace(
            FEWER_THREADS.at(None, TOLD.format(count=fitting)),
            factor=spread(scenario, low, likely, high),
            most=gain(scenario, high),
            treatments=threads_set_to(fitting),
        )
    ]


def _more_cores(diagnosis: Diagnosis) -> list[Proposal]:
    """The quota raised to the cores that are there."""
    machine = diagnosis.profile.machine
    cores = float(machine.affinity_cores or machine.cores_online)
    if cores <= machine.cores:
        return []
    asked = RAISE_QUOTA.at(None, f"docker run --cpus={cores:g} ...    # kubernetes: resources.limits.cpu")
    return [replace(asked, change=Change(cores=cores))]


def _case(throttled: float | None, quota: float | None = 1.0, threads: int = 4) -> Diagnosis:
    """A model on four threads that may use one core's time."""
    scene = Scenario((BatchCost(1e-4),), (StepCost(0.01),), cores=quota or 4.0, threads=float(threads))
    base = patient(BatchCost(1e-4), StepCost(0.01), cores=quota or 4.0, scenario=scene)
    machine = replace(base.profile.machine, quota_cores=quota, cores=quota or 4.0, affinity_cores=4)
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=threads)
    facts = replace(base.profile, machine=machine, processes=[trainer])
    return replace(base, profile=facts, host=HostLoad(cores=quota or 4.0, throttled=throttled))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("four threads on one core's time", _case(0.9), "fires", "match-threads-to-quota"),
        Case("two cores' time, two threads", _case(0.9, 2.0, 2), "fires"),
        Case("half a core for one thread", _case(0.9, 0.5, 1), "fires", "more-cores"),
        Case("hardly ever stopped", _case(0.01), "silent"),
        Case("no quota", _case(None, None), "silent"),
        Case("a quota without counts", _case(None), "abstains"),
    )


FINDING = Entry(ID, "input.oversubscribed", examine, remedies=(FEWER_THREADS, RAISE_QUOTA))
