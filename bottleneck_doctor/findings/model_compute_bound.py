"""The model's own computation on the CPU sets the pace; the loader is healthy.

## What it means
Data is there in time. A faster disk, another format or more workers would change nothing.

## Why it costs
Forward pass, backward pass and optimizer take the whole step. That is what training is for: good news for
the loader, and a reason to look at the model, or for an accelerator.

## How it is measured
The verdict's own replay: no cause gains as much as the model's computation would. The profiler's window, if
there was one, says how much of it lies in large operators; the trainer says how many threads it computes
with.

## Thresholds
The verdict's cause is the model's computation. More threads are offered where torch computes with one, at
least 0.8 of a core lay idle, strangers took less than a quarter, and more than half of the profiled CPU is
in operators of 0.2 ms and more (ours): smaller ones lose by being divided.

## When this advice is wrong
One thread may be meant: several ranks on one machine, or reproducible sums. The order of sums changes with
the number of threads, and results with it, in the last digits.

## Prediction
Amdahl on the measured share of large operators, each further core bringing nothing at worst and half of one
likely (ours). Nothing else is offered: how the model itself computes is not measured here.

## Remedies
`set-threads`.

## References
torch.set_num_threads; torchrun, which sets OMP_NUM_THREADS=1 when it is unset; PyTorch Performance Tuning
Guide, "CPU specific optimizations".
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, Change, Cure, Diagnosis, Finding, Host, Turn, Work
from ..model.profile import Operator, Process
from ..model.report import Evidence, Fix
from .advice import HOOK, spread, step_share
from .case import patient
from .entry import Case, Entry

LARGE_S = 2e-4  # self CPU per call from which dividing an operator pays (ours)
LARGE_SHARE = 0.5  # of the profiled CPU (ours)
IDLE_CORES = 0.8  # that lay idle, or there is nothing to compute on (ours)
EFFICIENCY = (
    0.0,
    0.5,
    0.9,
)  # of each further core (ours; with a busy neighbour it was below zero [measured])
NEIGHBOUR_CORES = 0.25  # taken by strangers, from which all threads wait for the slowest [catalogue F59]
PROFILER = "torch.profiler window"
PARTS = (("compute", "forward pass and the rest"), ("backward", "backward pass"), ("optimizer", "optimizer"))


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the model on the CPU is the verdict's cause."""
    if diagnosis.loop is None or diagnosis.scenario is None:
        return Abstention("model-compute-bound", "a training loop over a loader")
    if diagnosis.verdict.cause != "model.compute":
        return None
    evidence = [Evidence("share of the step that the loop waits for data", "data_wait_fraction",
                         step_share(diagnosis, "wait"), HOOK)]  # fmt: skip
    for name, text in PARTS:
        share = step_share(diagnosis, name)
        if share > 0:
            evidence.append(
                Evidence(f"share of the step: {text}", f"{name}_share", share, "time between batches")
            )
    threads, idle, large = _threads(diagnosis), _idle(diagnosis.host), _large_share(diagnosis)
    known = (
        ("threads that torch computes with", "torch_threads", threads, "torch.get_num_threads"),
        ("cores that lay idle", "idle_cores", idle, "/proc/stat"),
        (
            "share of the profiled CPU in operators of 0.2 ms and more",
            "large_operator_share",
            large,
            PROFILER,
        ),
    )
    evidence += [Evidence(*one) for one in known if one[2] is not None]
    cures = _more_threads(diagnosis, idle, large) if threads == 1 else []
    return Finding("model-compute-bound", "model.compute", evidence, cures)


def _threads(diagnosis: Diagnosis) -> float | None:
    pid = diagnosis.loop.pid if diagnosis.loop is not None else 0
    known = [one.torch_threads for one in diagnosis.profile.processes if one.pid == pid and one.torch_threads]
    return float(known[0]) if known else None


def _idle(host: Host) -> float | None:
    """Whole-machine idleness is not ours to have: what the job may use, less what it and strangers used."""
    if host.job_cores is None or host.foreign_cores is None:
        return None
    return max(0.0, host.cores - host.job_cores - host.foreign_cores)


def _large_share(diagnosis: Diagnosis) -> float | None:
    total = sum(one.self_cpu_s for one in diagnosis.profile.operators)
    large = [
        one.self_cpu_s for one in diagnosis.profile.operators if one.self_cpu_s >= LARGE_S * max(one.calls, 1)
    ]
    return sum(large) / total if total > 0 else None


def _more_threads(diagnosis: Diagnosis, idle: float | None, large: float | None) -> list[Cure]:
    if idle is None or large is None or diagnosis.scenario is None:
        return []
    if idle < IDLE_CORES or large < LARGE_SHARE or (diagnosis.host.foreign_cores or 0.0) > NEIGHBOUR_CORES:
        return []
    threads = 1 + round(idle)
    low, likely, high = (Change(compute=1 - large + large / (1 + one * (threads - 1))) for one in EFFICIENCY)
    return [
        Cure(
            id="set-threads",
            title=f"let torch compute with {threads} threads",
            fix=Fix("before the model is built, or in the environment",
                    f"torch.set_num_threads({threads})      # or: OMP_NUM_THREADS={threads} python train.py"),
            factor=spread(diagnosis.scenario, low, likely, high),
            apply="env",
            risk="results may differ in the last digits; cores that others take make all threads wait",
        )
    ]  # fmt: skip


MATMULS = [
    Operator("aten::addmm", 6.0, 0.012),
    Operator("aten::mm", 6.0, 0.006),
    Operator("aten::add_", 80.0, 0.002),
]
SMALL = [Operator("aten::add_", 800.0, 0.008), Operator("aten::mul", 900.0, 0.009)]


def _case(threads: int | None, operators: list[Operator], job_cores: float | None = 1.0) -> Diagnosis:
    """A model that computes for 20 ms; batches come for nothing."""
    sick = patient(Work(2e-4), Turn(0.02), cores=4.0)
    facts = replace(
        sick.profile, operators=operators, processes=[Process(1, 0, "trainer", 0.0, torch_threads=threads)]
    )
    return replace(sick, profile=facts, host=Host(cores=4.0, job_cores=job_cores, foreign_cores=0.0))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("one thread for large products on four cores", _case(1, MATMULS), "fires", "set-threads"),
        Case("four threads already", _case(4, MATMULS), "fires"),
        Case("one thread for many small operators", _case(1, SMALL), "fires"),
        Case("one thread, but no idle core", _case(1, MATMULS, 3.9), "fires"),
        Case("data is late", patient(Work(0.02), Turn(0.002)), "silent"),
        Case("no loop was seen", replace(_case(1, MATMULS), loop=None), "abstains"),
    )


FINDING = Entry("model-compute-bound", "model.compute", examine)
