"""The step is made of many small operators: calling them costs more than they compute.

## What it means
Python, the dispatcher and autograd take some microseconds for each operator, whatever its size. Here they
take a large part of the step.

## Why it costs
A product of 8 by 64 numbers computes for a microsecond or two; to call it, to note it for the backward pass
and to call its backward takes several times as long. More cores or faster memory change nothing.

## How it is measured
One profiled step: pauses between operators shorter than 0.1 ms, and up to 5 µs of each operator's own time,
less 0.9 µs that the profiler adds to each (measured), are the price of calling. The rest is computation.

## Thresholds
Calling takes more than 0.4 of the step [catalogue F34], of it at least half outside of the optimizer (ours):
an optimizer that loops over its tensors is optimizer-step-slow.

## When this advice is wrong
Code written for clarity may be meant so. Compilation takes half a minute and more, again for each new shape,
and loses where shapes keep changing. `model.compile()` passes over a plain `torch.nn.Sequential` (measured,
torch 2.13): there use `model = torch.compile(model)`. A larger batch also makes calls cheaper per sample, but
that is another training: it is offered only where gradients of several batches are added up as it is.

## Prediction
`fuse-operators`: a tenth of the price gone at worst, 0.6 likely, all but 2 % at best (ours).
`torch-compile`: from nothing to the factor of 2 that its documentation hopes for, 1.3 likely; 2.34 to 1.52 ms
were measured for 30 layers of width 64, after 38 s of compilation.

`bigger-batch`: calls once for the batches of an optimizer step in place of once for each, half of that at
worst; at best larger products compute in 0.7 of the time, too (ours; of one training ×2.0 likely, ×2.3 true).

## References
PyTorch Performance Tuning Guide, "Fuse operations"; torch.compile; torch.nn.LSTM; torch.bmm; torch.func.vmap.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..analyse.causes import gain
from ..model.computing import Compilation, Computing, DispatchBreakdown
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator, Series
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import spread
from .parts.computing import (
    PROFILER,
    WHOLE,
    anatomy,
    anatomy_like,
    as_one,
    batches_added_up,
    case_of,
    optimizer_s,
)
from .parts.entry import Case, Entry, given, profiled_cpu_step

ID = "dispatch-bound"
LAUNCH_SHARE = 0.4  # of the step [catalogue F34]
OUTSIDE_SHARE = 0.5  # of the calls' price that is not the optimizer's (ours)
FUSED = (0.9, 0.4, 0.02)  # of the price that is left when calls are merged (ours)
COMPILED = (1.0, 1.3, 2.0)  # torch.compile's documentation, and 1.5 [catalogue F34, measured]

MERGED = """\
y = torch.bmm(x, weights)                  # one product for all heads, experts or members, not a loop
h, _ = torch.nn.LSTM(...)(x)               # the fused layer, not a cell per time step
y = torch.nn.functional.gelu(x)            # the library's function, not its formula"""
FUSE = Proposal(
    id="fuse-operators",
    title="do in one call what takes many",
    fix=Fix("merge loops over small tensors into calls on large ones", MERGED),
    effort="hours",
    risk="results may differ in the last digits",
    basis="bound",
)
COMPILE = Proposal(
    id="torch-compile",
    title="let torch.compile merge the model's operators",
    fix=Fix(
        "before the loop",
        "model.compile()                     # in place: state_dict keys stay; warm it up before timing",
    ),
    factor=COMPILED,
    apply="hook~",
    risk="first steps take half a minute and more; each new shape may compile again; numbers may differ",
    basis="bound",
    treatments=(Treatment("compiled"),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when calling operators takes a large part of the step."""
    scenario, found = given(diagnosis.scenario), given(anatomy(diagnosis))
    launch = fmean(cost.launch for cost in scenario.costs)
    share = 1 - 1 / gain(scenario, Change(launch=0))
    outside = 1 - min(1.0, optimizer_s(diagnosis, scenario) / max(launch, 1e-12))
    if share < LAUNCH_SHARE or outside < OUTSIDE_SHARE:
        return None
    evidence = [
        Evidence("share of the step that calling operators takes", "launch_share", share, PROFILER),
        Evidence("operators in the profiled step", "operators_per_step", float(found.operators), PROFILER),
        Evidence("what calling one takes", "launch_s", launch / max(found.operators, 1), PROFILER),
    ]
    fused = (Change(launch=1 - outside * (1 - left)) for left in FUSED)
    most = gain(scenario, Change(launch=0.0))
    proposals = [replace(FUSE, factor=spread(scenario, *fused), most=most)]
    if not diagnosis.profile.computing.compilations:
        proposals.append(replace(COMPILE, most=most))
    whole = as_one(diagnosis, scenario, batches_added_up(diagnosis), Change())
    if whole is not None:
        proposals.append(whole)
        evidence.append(Evidence("gradients of several batches add up for one optimizer step"))
    return Finding(ID, "host.launch", evidence, proposals)


TINY = StepCost(0.0005, launch=0.0015)
LARGE = StepCost(0.02, launch=0.001)
TABLE = [Operator("aten::addmm", 30.0, 2e-4), Operator("aten::add_", 60.0, 1e-4)]


def _case(cost: StepCost, optimizer: float = 0.0, found: DispatchBreakdown | None = None) -> Diagnosis:
    """A loop that takes ``cost``; ``optimizer`` is the optimizer's share of it."""
    seen = found or anatomy_like(cost, 1500, 0.0)
    sick = case_of(cost, Computing(anatomies=[seen]), TABLE)
    own = cost.compute + cost.launch
    steps = [replace(step, optimizer=optimizer * own, compute=(1 - optimizer) * own) for step in sick.steps]
    return replace(sick, steps=steps)


def _compiled() -> Diagnosis:
    sick = _case(TINY)
    facts = replace(sick.profile.computing, compilations=[Compilation(1, [1.0], [4], [0], [2.0])])
    return replace(sick, profile=replace(sick.profile, computing=facts))


def _adds_up(used: float) -> Diagnosis:
    """Four batches for each optimizer step, in so many bytes of ten gigabytes."""
    sick = _case(TINY, optimizer=0.05)
    steps = [
        replace(step, optimizer=step.optimizer if place % 4 == 3 else 0.0)
        for place, step in enumerate(sick.steps)
    ]
    memory = Series([1.0], {"job_private_bytes": [used], "memory_available_bytes": [1e10]})
    return replace(sick, steps=steps, profile=replace(sick.profile, series=memory))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    bare = replace(_case(TINY).profile, operators=[])
    return (
        Case("thirty layers of width 64", _case(TINY), "fires", "torch-compile"),
        Case("loops over small tensors", _case(TINY), "fires", "fuse-operators"),
        Case("compiled already, in pieces", _compiled(), "fires", "fuse-operators"),
        Case("gradients of four small batches add up", _adds_up(1e9), "fires", "bigger-batch"),
        Case("so they do, and memory holds no four", _adds_up(5e9), "fires", "torch-compile"),
        Case("large products", _case(LARGE), "silent"),
        Case("it is the optimizer that loops", _case(TINY, optimizer=0.7), "silent"),
        Case("no step was profiled", replace(_case(TINY), profile=bare), "abstains"),
    )


FINDING = Entry(ID, "host.launch", examine, needs=(profiled_cpu_step,), remedies=(FUSE, COMPILE, WHOLE))
