"""All cores are full of making batches: more workers cannot help, only cheaper batches or more cores can.

## What it means
The cores that the job may use are full, the job's share of them goes mostly into loader workers, and the
loop waits for data all the same.

## Why it costs
A batch costs c seconds of CPU and the loop u; N cores give one batch every (c + u) / N seconds at best,
whatever the number of workers. More workers than cores only wait for each other.

## How it is measured
CPU seconds of the whole process tree, and of strangers, over the cores that the job may use. The CPU of a
batch comes from the thread clocks of those who make it. Whether more workers would help is asked of the
replay.

## Thresholds
0.85 of the cores in use (ours: SageMaker Debugger's rule says 0.9, and the kernel's own share is not in our
count). Making batches is more than half of the job's part (ours). Data wait above 5 % of the step: the
profiler's TensorBoard plugin.

## When this advice is wrong
A control group's quota looks like this with idle cores beside it: raise the quota first. Two hyperthreads of
one core count as two cores here and compute like 1.25. Where strangers take the cores, asking them to leave
is cheaper.

## Prediction
Cores and workers by replay. Cheaper samples are not measured: from nothing gained, over half the CPU per
sample, to none at all, which is the most that any cure of this kind can bring.

## References
Amazon SageMaker Debugger, rule "CPUBottleneck"; Mohan et al., "Analyzing and Mitigating Data Stalls in DNN
Training", VLDB 2021 (about three cores for each GPU on typical servers).
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.predict import WORTH, best_setting, doubled
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
from .parts.advice import dearest, loader_call, loader_with, place_of, spread, wait_evidence, waits
from .parts.entry import Case, Entry, dataloader_loop, given, patient
from .parts.lines import crowded, hottest_place, line_evidence

ID = "host-cpu-saturated"
FULL_SHARE = 0.85  # of the cores [SageMaker Debugger: 0.9; ours: less what no process is charged for]
DATA_SHARE = 0.5  # of the job's CPU goes into batches, or the model is what fills the cores (ours)
CAUSES = ("input.preprocess", "input.collate")

CHEAPER = Proposal(
    id="cheaper-preprocess",
    title="spend less CPU on each sample",
    fix=Fix(
        "work on fewer pixels and tokens, in whole arrays, or once instead of every epoch",
        "x = whole_array_function(x)        # not a Python loop over its elements\n"
        "x = colour(crop(x))                # the transform that shrinks a sample goes first",
    ),
    effort="hours",
    risk="fewer pixels or tokens are another training",
    basis="bound",
)
MORE_CORES = Proposal(
    id="more-cores",
    title="give the job twice the cores",
    fix=Fix(
        "raise the container's or the batch system's cores, and the workers with them",
        "docker run --cpus=4 ...    # and num_workers=4",
    ),
    apply="admin",
    effort="hours",
    risk="costs money; two hyperthreads are not two cores",
)
# What people try first. The report says it where the replay finds that it hurts.
MORE_WORKERS = Proposal(
    id="more-workers",
    title="raise num_workers further",
    fix=Fix("leave it as it is: more workers would share the same cores", "DataLoader(..., num_workers=4)"),
    apply="hook",
    risk="more processes, more memory, more switching, no more batches",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when workers fill the cores, the loop waits, and twice the workers would not help."""
    loader, scenario, host = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.host
    if not loader.num_workers or not waits(diagnosis):
        return None
    if crowded(diagnosis) or doubled(scenario) >= WORTH:
        return None
    if host.job_cores is None:
        return Abstention(ID, "CPU time of the whole process tree")
    making_s = diagnosis.inputs.cpu + diagnosis.inputs.other_cpu
    full = (host.job_cores + (host.foreign_cores or 0.0)) / host.cores
    if full < FULL_SHARE or making_s < DATA_SHARE * host.job_cores * diagnosis.step_s:
        return None
    evidence = [
        Evidence("share of the cores that is in use", "cores_full_share", full, "process tree, /proc/stat"),
        Evidence("cores that this job keeps busy", "job_cores", host.job_cores, "process tree"),
        Evidence("cores that strangers keep busy", "foreign_cores", host.foreign_cores, "/proc/stat"),
        Evidence("what twice the workers would bring", "doubled_speedup", doubled(scenario), "replay"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    cheaper = spread(scenario, Change(), Change(cpu=0.5), Change(cpu=0.0))
    twice, stay = 2 * scenario.workers, loader_call(loader, num_workers=loader.num_workers)
    proposals = [
        replace(CHEAPER.at(place_of(diagnosis)), factor=cheaper),
        _more_cores(scenario, host),
        replace(
            MORE_WORKERS.at(loader.location, stay),
            change=Change(workers=twice),
            treatments=(loader_with(loader, num_workers=twice),),
        ),
    ]
    known = [one for one in evidence if one.value is not None]
    return Finding(ID, dearest(diagnosis, CAUSES), known, proposals, hottest_place(diagnosis))


def _more_cores(scenario: Scenario, host: HostLoad) -> Proposal:
    """Twice the cores that the job was given, with the number of workers that suits them."""
    cores = 2 * scenario.cores
    workers = max(scenario.workers, best_setting(replace(scenario, cores=cores)).workers)
    command = f"docker run --cpus={2 * host.cores:g} ...    # and num_workers={workers}"
    return replace(MORE_CORES.at(None, command), change=Change(cores=cores, workers=workers))


def _case(
    work: BatchCost, cost: StepCost, workers: int, job: float | None, foreign: float = 0.0
) -> Diagnosis:
    """A run on two cores of which the job keeps ``job`` busy, and strangers ``foreign``."""
    host = HostLoad(cores=2.0, job_cores=job, foreign_cores=foreign)
    return replace(patient(work, cost, workers=workers, cores=2.0 - foreign), host=host)


FEW = StepCost(0.0, 0.002)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("four workers on two cores", _case(BatchCost(0.02), FEW, 4, 1.95), "fires", "more-cores"),
        Case(
            "two workers fill two cores", _case(BatchCost(0.02), FEW, 2, 1.9), "fires", "cheaper-preprocess"
        ),
        Case("strangers hold one core", _case(BatchCost(0.02), FEW, 2, 0.95, 1.0), "fires", "more-cores"),
        Case("one worker, one core free", _case(BatchCost(0.02), FEW, 1, 1.0), "silent"),
        Case(
            "full cores, but the model fills them", _case(BatchCost(0.004), StepCost(0.02), 2, 1.95), "silent"
        ),
        Case("waiting, not computing", _case(BatchCost(0.001, wait=0.04), FEW, 4, 0.2), "silent"),
        Case("nobody counted the job's CPU", _case(BatchCost(0.02), FEW, 4, None), "abstains"),
    )


FINDING = Entry(
    ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=(CHEAPER, MORE_CORES, MORE_WORKERS)
)
