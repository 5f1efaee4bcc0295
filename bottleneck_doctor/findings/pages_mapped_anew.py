"""Memory that is freed goes back to the kernel, which maps it page by page when it is needed again.

## What it means
The C library returns large blocks to the kernel when they are freed: each by itself, or all that is free at
the end of its heap. What is allocated next is mapped anew: each first touch of a page is a fault, and each
page is zeroed. Activations of a model on the CPU, pictures that a worker decodes and temporaries of NumPy all
do this.

## Why it costs
A fault takes 0.5 to 3.3 us for 4 KiB (measured; most in virtual machines), which can be longer than the
operator that fills the page. It is CPU time in the kernel, on the thread that touches the page.

## How it is measured
System CPU and minor faults of the training process between two looks at its steps, and of each sampled fetch
(`getrusage`). Reads from the page cache and batches in shared memory are taken off.

## Thresholds
256 faults a step or batch, of 4 us at most (else 1 us is taken for each), and x1.03 by replay (ours).
A promise below x1.2 is a hint and not listed as a remedy: four of these brought x0.9 to x1.14 (ours).

## When this advice is wrong
Files that are mapped into memory fault as well, and no allocator helps there: where a process has more than
32 MB of data mapped, the gain is told as a bound.

## Prediction
Replay without the kernel's time, of which a twentieth is left (ours). Measured on two cores,
promised and found: convolutions on 64x64 pixels x1.5 and x1.5, on 224x224 x2.1 and x2.8.

## References
getrusage(2), mallopt(3): M_MMAP_MAX, M_TRIM_THRESHOLD; PyTorch, "Performance Tuning Guide", on memory
allocation (jemalloc and TCMalloc do the same).
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..analyse.causes import gain
from ..analyse.memory import fetched_paging_s, made_paging_s
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.report import Evidence, Fix
from ..model.run import ENVIRONMENT, Treatment
from .parts.advice import payload_of, readings, spread
from .parts.computing import switches
from .parts.entry import Case, Entry, given, inputs_of, patient, steady_steps

ID = "pages-mapped-anew"
LEFT = (0.33, 0.05, 0.0)  # of the kernel's time: some of it may be for other pages (ours)
MAPPED_BYTES = 32 << 20  # of data files, from which faults may be theirs (ours)
SOURCE = "getrusage"
SHARE = 0.1  # of the step in the kernel, from which the cause is the loop's memory (ours)
HINT = 1.2  # a smaller promise is a hint, no remedy (ours, measured: see above)
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
VARIABLES = " ".join(f"{name}={value}" for name, value in KEEP.items())
KEEP_FREED = Proposal(
    id="keep-freed-memory",
    title="let malloc keep freed memory, instead of mapping it anew in each step",
    fix=Fix("two variables of glibc's allocator, before the start", f"{VARIABLES} python train.py"),
    apply="env",
    risk="each process, workers too, stays as large as it once was",
    treatments=(Treatment(ENVIRONMENT, dict(KEEP)),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when mapping pages takes a visible part of the step, or of making batches."""
    scenario = given(diagnosis.scenario)
    cost_s, batch_s = fmean(cost.paging for cost in scenario.costs), _batch_s(diagnosis)
    change = _without(scenario, batch_s, 0.0)
    if gain(scenario, change) < WORTH:
        return None
    if not _is_plain(diagnosis):
        return None
    evidence = _evidence(diagnosis, cost_s, batch_s)
    cause = "input.preprocess" if gain(scenario, replace(change, paging=1.0)) >= WORTH else "model.compute"
    if diagnosis.verdict.cause == "host.memory" or cost_s >= SHARE * diagnosis.step_s:
        cause = "host.memory"
    likely = gain(scenario, _without(scenario, batch_s, LEFT[1]))
    if likely < HINT:
        text = f"speedup that {VARIABLES}, set before the start, may bring"
        return Finding(ID, cause, [*evidence, Evidence(text, "keep_freed_speedup", likely, "replay")])
    return Finding(ID, cause, evidence, [_keep(diagnosis, scenario, batch_s)])


def _batch_s(diagnosis: Diagnosis) -> float:
    """Seconds of the kernel's for pages, in making a batch."""
    if diagnosis.inputs.minor_faults is None:
        return made_paging_s(diagnosis.steps) if diagnosis.without_loader is not None else 0.0
    payload, loader = payload_of(diagnosis), diagnosis.loader
    shared = (
        payload.tensor_bytes if payload is not None and loader is not None and loader.num_workers else 0.0
    )
    return fetched_paging_s(diagnosis.inputs, shared)


def _without(scenario: Scenario, batch_s: float, left: float) -> Change:
    """So much of the kernel's time for pages is left."""
    making = fmean(work.cpu + work.collate for work in scenario.works) if scenario.works else 0.0
    share = min(1.0, batch_s / making) if making > 0 else 0.0
    rest = 1 - share * (1 - left)
    return Change(cpu=rest, collate=rest, paging=left)


def _is_plain(diagnosis: Diagnosis) -> bool:
    """Whether the C library's own allocator serves, and nobody has told it what to keep."""
    known = switches(diagnosis)
    names = known.environment if known is not None else {}
    return not any(name.startswith(("MALLOC_", "GLIBC_", "LD_PRELOAD")) for name in names)


def _evidence(diagnosis: Diagnosis, cost_s: float, batch_s: float) -> list[Evidence]:
    inputs, step_s, evidence = diagnosis.inputs, diagnosis.step_s, []
    if cost_s >= 0.01 * step_s:
        text = "share of the step in which the kernel maps pages"
        evidence.append(Evidence(text, "paging_share", cost_s / step_s, SOURCE))
        faults = [step.faults for step in diagnosis.steps if step.faults is not None]
        if faults:
            evidence.append(Evidence("pages newly mapped in a step", "minor_faults", fmean(faults), SOURCE))
    if batch_s > 0.01 * inputs.cpu:
        text = "share of a batch's CPU in which the kernel maps pages"
        evidence.append(Evidence(text, "batch_paging_share", batch_s / inputs.cpu, SOURCE))
    if batch_s > 0.01 * inputs.cpu and inputs.minor_faults is not None:
        text = "pages newly mapped for a batch"
        evidence.append(Evidence(text, "batch_minor_faults", inputs.minor_faults, SOURCE))
    return evidence


def _keep(diagnosis: Diagnosis, scenario: Scenario, batch_s: float) -> Proposal:
    mapped = max((value for _, value in readings(diagnosis.profile.series, "mapped_data_bytes")), default=0.0)
    if mapped <= MAPPED_BYTES:
        return replace(KEEP_FREED, change=_without(scenario, batch_s, LEFT[1]))
    factor = spread(scenario, *(_without(scenario, batch_s, left) for left in LEFT))
    return replace(KEEP_FREED, factor=factor, most=factor[2], basis="bound")


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    pictures = BatchCost(0.06)
    mapped = inputs_of(pictures, 2, 0.03, system=0.02, minor_faults=8000.0)
    return (
        Case("canvases made in each step", patient(BatchCost(1e-4), StepCost(0.01, paging=0.02)), "fires",
             "keep-freed-memory"),
        Case("pictures decoded by two workers", patient(pictures, StepCost(0.002), workers=2, inputs=mapped),
             "fires", "keep-freed-memory"),
        Case("a tenth of the step: a hint", patient(BatchCost(1e-4), StepCost(0.01, paging=1e-3)), "fires"),
        Case("a little of it", patient(BatchCost(1e-4), StepCost(0.01, paging=2e-4)), "silent"),
        Case("no loop was seen", replace(patient(BatchCost(1e-4), StepCost(0.01)), scenario=None),
             "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "host.memory", examine, needs=(steady_steps,), remedies=(KEEP_FREED,))
