"""A few slow batches hold back others that are ready.

## What it means
Batches differ much in what they cost, and the loop takes them strictly in order: while it waits for a slow
one, finished ones lie behind it and their workers, who may work only so far ahead, stand still.

## Why it costs
On average the workers would keep up. With a deeper buffer, or with batches taken as they come, a slow batch
is made while the loop uses the others.

## How it is measured
The cost of each sampled batch, net of waiting for a core. The replay runs the same batches through a deeper
buffer, and through one without order.

## Thresholds
A coefficient of variation above 0.5, and 5 % gained by replay from one of the two (ours).

## When this advice is wrong
Periodic slow batches point to one bad shard or worker: mend that. Shuffle buffers of iterable data sets fill
once, at the start. Order matters where batches carry state from one to the next.

## Prediction
Replay of the measured batches: with four times the depth, without order, or with every batch costing the
mean. Measured with a lognormal cost (coefficient 1.5) and four workers: 11.4 ms, 7.3 at depth 8, 7.6 without
order, against 10.9, 6.8 and a bound of 6 predicted.

## References
torch.utils.data.DataLoader, "prefetch_factor" and "in_order".
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, log, sqrt

from ..analyse.causes import gain
from ..analyse.inputs import fetches_of
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    Inputs,
    Proposal,
    Scenario,
    StepCost,
)
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from .parts.advice import dearest, loader_call, loader_with, wait_evidence, waits
from .parts.entry import Case, Entry, dataloader_loop, given, inputs_of, patient

ID = "batch-time-variance"
VARIATION = 0.5  # of a batch's cost, standard deviation over mean [catalogue F14]
PAYS = 1.05  # by replay [catalogue F14]
DEEPER = 4  # times the present depth: measured were 2 and 8 [catalogue F14]
BATCHES_AT_LEAST = 32  # or their variation is a guess (ours)
CAUSES = ("input.preprocess", "input.storage", "input.network", "input.wait")

DEEPEN = Proposal(
    id="prefetch-deeper",
    title="let each worker be several batches ahead",
    fix=Fix("deepen the buffer; the order stays", "DataLoader(..., prefetch_factor=8)"),
    apply="hook",
    risk="finished batches lie in shared memory",
)
UNORDER = Proposal(
    id="unordered-batches",
    title="take batches as they come",
    fix=Fix("give up the order of batches", "DataLoader(..., in_order=False)"),
    change=Change(in_order=False),
    apply="hook~",
    risk="runs can no longer be repeated exactly; slow samples come late in each epoch",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when batches vary, the loop waits, and order or depth is what makes it wait."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    if loader.num_workers < 2:
        return None
    if not waits(diagnosis) or inputs.variation < VARIATION:
        return None
    if inputs.batches < BATCHES_AT_LEAST:
        return Abstention(ID, f"at least {BATCHES_AT_LEAST} timed fetches in the steady window")
    proposals = [one for one in _proposals(scenario, loader) if gain(scenario, given(one.change)) >= PAYS]
    if not proposals:
        return None
    table = fetches_of(diagnosis.profile, loader.key)
    evidence = [
        Evidence("standard deviation of a batch's cost over its mean", "fetch_variation", inputs.variation,
                 "hook on fetch"),
        *([Evidence("longest fetch that was timed", "fetch_longest_s", max(table.wall_s), "hook on fetch")]
          if table is not None and table.wall_s else []),
        *wait_evidence(diagnosis),
    ]  # fmt: skip
    return Finding(ID, dearest(diagnosis, CAUSES), evidence, proposals, loader.location)


def _proposals(scenario: Scenario, loader: Loader) -> list[Proposal]:
    depth = DEEPER * scenario.prefetch
    deeper = replace(
        DEEPEN.at(loader.location, loader_call(loader, prefetch_factor=depth)),
        title=f"let each worker be {depth} batches ahead",
        change=Change(prefetch=depth),
        treatments=(loader_with(loader, prefetch_factor=depth),),
        risk=f"up to {depth * scenario.workers} finished batches lie in shared memory",
    )
    unordered = replace(
        UNORDER.at(loader.location, loader_call(loader, in_order=False)),
        treatments=(loader_with(loader, in_order=False),),
    )
    return [deeper, unordered] if scenario.in_order else [deeper]


def _works(spread: float) -> tuple[BatchCost, ...]:
    """Waits of 20 ms on average, lognormal by quantiles in a scrambled order."""
    quantiles = [((7 * place) % 31 + 0.5) / 31 for place in range(31)]
    normal = [sqrt(2) * _inverse_erf(2 * one - 1) for one in quantiles]
    return tuple(BatchCost(0.0005, wait=0.02 * exp(spread * one - spread * spread / 2)) for one in normal)


def _inverse_erf(x: float) -> float:
    """Winitzki's approximation, good to two digits."""
    within = log(1 - x * x)
    half = 2 / (3.14159 * 0.147) + within / 2
    return (1 if x > 0 else -1) * sqrt(max(0.0, sqrt(half * half - within / 0.147) - half))


def _case(spread: float, workers: int = 4, batches: int = 400) -> Diagnosis:
    """Workers that sleep 20 ms on average; the loop needs 6 ms."""
    works, cost = _works(spread), StepCost(0.0, 0.006)
    scene = Scenario(works, (cost,), workers=workers, cores=2.0)
    inputs = inputs_of(BatchCost(0.0005, wait=0.02), workers, 0.01, variation=spread, batches=batches)
    return patient(BatchCost(0.0005, wait=0.02), cost, workers=workers, inputs=inputs, scenario=scene)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("requests of very different length", _case(1.1), "fires", "prefetch-deeper"),
        Case("the same, taken as they come", _case(1.1), "fires", "unordered-batches"),
        Case("batches alike", _case(0.1), "silent"),
        Case("one worker is not overtaken", _case(1.1, 1), "silent"),
        Case("a handful of batches", _case(1.1, batches=12), "abstains"),
        Case("no fetch was timed", replace(_case(1.1), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.wait", examine, needs=(dataloader_loop,), remedies=(DEEPEN, UNORDER))
