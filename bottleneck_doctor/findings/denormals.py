"""Weights, gradients or optimizer state hold numbers too small to be normal: they compute slowly.

## What it means
A visible part of the numbers lies between zero and 1.2e-38, below float32's normal range: something decays
towards zero and never reaches it.

## Why it costs
An instruction that meets such a number takes a hundred cycles and more instead of one. Of sixteen numbers
in a vector one is enough.

## How it is measured
Some thousand numbers of parameters, gradients and optimizer state are looked at once. The profiled step says
how much of the operators' time is pointwise: products in oneDNN do not mind.

## Thresholds
More than 1 % of a thousand numbers or more [catalogue F61], pointwise operators above 0.1 of the operators'
time (ours).

## When this advice is wrong
Flushing to zero changes what lies below 1e-38, which no training should need. Activations alone may hold such
numbers: they are not looked at. The setting is each thread's own: set it before threads exist.

## Prediction
A range by replay on the pointwise share: from nothing to 9 times as fast (measured: 11.9 to 1.3 ms), by how
many vectors hold at least one such number.

## References
torch.set_flush_denormal; Intel 64 optimization manual, "Denormals are zero".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing, Denormals
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import PROFILER, anatomy_like, case_of, faster, share_of
from .parts.entry import Case, Entry, given, profiled_cpu_step

ID = "denormals"
TINY_SHARE = 0.01  # of the numbers of one sort [catalogue F61]
LOOKED_AT_LEAST = 1000  # numbers (ours)
POINTWISE_SHARE = 0.1  # of the operators' time (ours)
SLOWER = 9.0  # times, pointwise on such numbers [catalogue F61, measured]
LANES = 16  # float32 numbers in a vector of 512 bits
POINTWISE = (
    "mul mul_ add add_ sub sub_ div div_ addcmul_ addcdiv_ addcmul addcdiv lerp_ sqrt pow exp tanh sigmoid "
    "tanh_backward sigmoid_backward threshold_backward relu clamp_min neg abs copy_ sum mean"
).split()

FLUSH = Proposal(
    id="flush-denormals",
    title="let the CPU take such numbers for zero",
    fix=Fix("first lines of the script, before any thread", "torch.set_flush_denormal(True)"),
    apply="hook~",
    risk="numbers below 1.2e-38 become zero",
    basis="bound",
    treatments=(Treatment("denormals"),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when numbers below the normal range meet pointwise operators."""
    scenario, pid = given(diagnosis.scenario), given(diagnosis.loop).pid
    known = [one for one in diagnosis.profile.computing.denormals if one.pid == pid]
    if not known:
        return Abstention(ID, "a sample of the weights")
    found = [one for one in known if one.looked >= LOOKED_AT_LEAST and one.tiny > TINY_SHARE * one.looked]
    pointwise = share_of(diagnosis, lambda name: name in POINTWISE)
    if not found or pointwise < POINTWISE_SHARE:
        return None
    most = max(one.tiny / one.looked for one in found)
    hit = 1 - (1 - most) ** LANES
    factor = faster(scenario, pointwise, (1.0, 1 + (SLOWER - 1) * hit / 2, 1 + (SLOWER - 1) * hit))
    if factor[1] < WORTH:
        return None
    proposal = replace(FLUSH, factor=factor, most=gain(scenario, Change(compute=1 - pointwise)))
    evidence = [
        Evidence(f"share of the {one.kind} below the normal range", "denormal_share", one.tiny / one.looked,
                 "a sample after one step")
        for one in found
    ]  # fmt: skip
    evidence.append(Evidence("share of the operators' time that is pointwise", "pointwise_share", pointwise,
                             PROFILER))  # fmt: skip
    return Finding(ID, "model.compute", evidence, [proposal])


COST = StepCost(0.02, launch=0.001)
TABLE = [Operator("aten::mul", 20.0, 0.009), Operator("aten::mm", 4.0, 0.004)]
PRODUCTS = [Operator("aten::mm", 20.0, 0.018)]


def _case(tiny: int | None, table: list[Operator] = TABLE, looked: int = 20_000) -> Diagnosis:
    """A step of 20 ms, half of it pointwise."""
    sampled = [Denormals(1, "parameters", looked, tiny)] if tiny is not None else []
    return case_of(COST, Computing(denormals=sampled, anatomies=[anatomy_like(COST)]), table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a third of the weights has decayed", _case(7000), "fires", "flush-denormals"),
        Case("one weight in a thousand", _case(20), "silent"),
        Case("products do not mind", _case(7000, PRODUCTS), "silent"),
        Case("too few numbers to say", _case(60, looked=300), "silent"),
        Case("nothing was sampled", _case(None), "abstains"),
        Case("no step was profiled", replace(_case(7000), loop=None), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(profiled_cpu_step,), remedies=(FLUSH,))
