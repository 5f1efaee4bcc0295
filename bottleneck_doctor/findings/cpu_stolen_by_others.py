"""Other jobs on the machine use the cores that this one wants.

## What it means
Processes outside the job compute. The job's own threads are ready to run and wait for a core.

## Why it costs
With n cores and f of them taken, the job's CPU work runs on n - f. A parallel operator waits for its
slowest thread, so that one stolen core can cost more than one core's share. Waiting for a core is no input
or output, whatever it looks like.

## How it is measured
CPU seconds of the machine less those of the job's process tree and of this tool; cores of the machine that
the job may not use are taken to be the strangers' first. The kernel's run queue says how long the makers of
batches waited for a core.

## Thresholds
Half a core; or a quarter, if the makers of batches spend more than 15 % of their running time waiting for
one while the job uses less than its cores (ours).

## When this advice is wrong
The strangers may be yours: a server that feeds the training, another rank started by hand. Hypervisors take
cores without showing it here. Every other prediction is made for the cores that were left.

## Prediction
Replay with all the cores that the job is allowed.

## References
proc(5), "stat" and "schedstat"; cpuset(7); taskset(1).
"""

from __future__ import annotations

from dataclasses import replace

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
from .parts.entry import Case, Entry, inputs_of, patient

ID = "cpu-stolen-by-others"
STOLEN_CORES = 0.5  # [catalogue F57]
STOLEN_LITTLE = 0.25  # with the run queue as a witness (ours)
QUEUE_SHARE = 0.15  # of running and waiting to run [catalogue F57]
ROOM = 0.9  # of its cores, below which the job cannot have caused the queue alone (ours)
BOOKS = "/proc/stat less the process tree"

ISOLATE = Proposal(
    id="isolate-cpus",
    title="give the job cores of its own",
    fix=Fix(
        "pin the job and the others to different cores, or ask the scheduler for a machine alone",
        "renice -n 19 -p PID    # for each of the others, or taskset -cp CORES PID",
    ),
    change=Change(strangers=0.0),
    apply="admin",
    risk="the others become slower",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when strangers take cores that the job may use."""
    host, inputs = diagnosis.host, diagnosis.inputs
    if diagnosis.scenario is None or host.foreign_cores is None:
        return Abstention(ID, "CPU time of the machine and of the job's process tree")
    out_of_reach = max(0.0, diagnosis.profile.machine.cores_online - host.cores)
    stolen = host.foreign_cores - out_of_reach
    running = inputs.cpu + inputs.queue
    queue = inputs.queue / running if running > 0 else 0.0
    crowded = queue > QUEUE_SHARE and host.job_cores is not None and host.job_cores < ROOM * host.cores
    if stolen < STOLEN_CORES and not (stolen >= STOLEN_LITTLE and crowded):
        return None
    evidence = [Evidence("cores that others used", "foreign_cores", host.foreign_cores, BOOKS),
                Evidence("cores that the job may use", "cores", host.cores, "affinity, quota")]  # fmt: skip
    if host.job_cores is not None:
        evidence.append(Evidence("cores that the job used", "job_cores", host.job_cores, "process tree"))
    evidence.append(Evidence("share of their running time that makers of batches wait for a core",
                             "fetch_queue_share", queue, "schedstat"))  # fmt: skip
    verdict = diagnosis.verdict  # where cores are not what is short, the theft is not the verdict's cause
    cause = verdict.cause if verdict.bound == "cpu" else "input.oversubscribed"
    return Finding(ID, cause, evidence, [ISOLATE])


def _case(foreign: float | None, queue_s: float = 0.0, online: int = 4) -> Diagnosis:
    """Four workers decode on four cores, of which strangers take some; the loop uses 3 ms."""
    work = BatchCost(0.04)
    inputs = replace(inputs_of(work, 4, 0.02), queue=queue_s)
    rest = 0.0 if online > 4 else foreign or 0.0
    scene = Scenario((work,), (StepCost(0.0, 0.003),), workers=4, cores=4.0, strangers=rest)
    sick = patient(work, StepCost(0.0, 0.003), workers=4, cores=4.0, inputs=inputs, scenario=scene)
    machine = replace(sick.profile.machine, cores_online=online, cores=4.0)
    host = HostLoad(cores=4.0, job_cores=2.0, foreign_cores=foreign)
    return replace(sick, profile=replace(sick.profile, machine=machine), host=host)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("strangers take two of four cores", _case(2.0, 0.03), "fires", "isolate-cpus"),
        Case("a quarter of a core, and a queue", _case(0.3, 0.02), "fires", "isolate-cpus"),
        Case("the machine is the job's", _case(0.0), "silent"),
        Case("strangers on other cores", _case(2.0, online=64), "silent"),
        Case("the process tree was not counted", _case(None), "abstains"),
    )


FINDING = Entry(ID, "input.oversubscribed", examine, remedies=(ISOLATE,))
