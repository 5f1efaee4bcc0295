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
The verdict's cause is the model's computation; nothing else is asked (contract).

## When this advice is wrong
Never, in that no advice is given: how the model could compute faster is said by findings of their own, about
threads, precision, layout, attention, the optimizer, and calls of small operators.

## Prediction
None: what can be predicted stands with those findings.

## Remedies
None of its own; findings about the model name theirs.

## References
PyTorch Performance Tuning Guide, "CPU specific optimizations".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.threads import idle_cores, large_share
from ..model.diagnosis import BatchCost, Diagnosis, Finding, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence
from ..model.run import Process
from .parts.advice import data_wait_evidence, step_share
from .parts.computing import PROFILER
from .parts.entry import Case, Entry, given, loader_loop, patient

ID = "model-compute-bound"
PARTS = (("compute", "forward pass and the rest"), ("backward", "backward pass"), ("optimizer", "optimizer"))


def examine(diagnosis: Diagnosis) -> Finding | None:
    """Fires when the model on the CPU is the verdict's cause."""
    if diagnosis.verdict.cause != "model.compute":
        return None
    evidence = [data_wait_evidence(diagnosis)]
    for name, text in PARTS:
        share = step_share(diagnosis, name)
        if share > 0:
            evidence.append(
                Evidence(f"share of the step: {text}", f"{name}_share", share, "time between batches")
            )
    threads, idle = _threads(diagnosis), idle_cores(diagnosis.host)
    large = large_share(diagnosis.profile, diagnosis.loop)
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
    return Finding(ID, "model.compute", evidence)


def _threads(diagnosis: Diagnosis) -> float | None:
    pid = given(diagnosis.loop).pid
    known = [one.torch_threads for one in diagnosis.profile.processes if one.pid == pid and one.torch_threads]
    return float(known[0]) if known else None


MATMULS = [
    Operator("aten::addmm", 6.0, 0.012),
    Operator("aten::mm", 6.0, 0.006),
    Operator("aten::add_", 80.0, 0.002),
]


def _case() -> Diagnosis:
    """A model that computes for 20 ms with four threads; batches come for nothing."""
    sick = patient(BatchCost(2e-4), StepCost(0.02), cores=4.0)
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=4)
    return replace(sick, profile=replace(sick.profile, operators=MATMULS, processes=[trainer]))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("large products set the pace", _case(), "fires"),
        Case("data is late", patient(BatchCost(0.02), StepCost(0.002)), "silent"),
        Case("Python sets the pace", patient(BatchCost(2e-4), StepCost(0.004, python=0.02)), "silent"),
        Case("no loop was seen", replace(_case(), loop=None), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(loader_loop,))
