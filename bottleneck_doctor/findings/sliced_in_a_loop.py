"""A loop takes one slice of a tensor after the other, and each slice's gradient is as large as the tensor.

## What it means
`x[:, t]` for each `t` makes one node of the graph each. In the backward pass every node fills a tensor of
`x`'s whole size with zeros, writes its slice into it, and adds it to the gradient so far.

## Why it costs
For `n` slices it is the square of `n` that is filled and added, though all slices together are `x` once.

## How it is measured
torch.profiler in one step: backward passes of slices, and as many of its fills and additions.

## Thresholds
At least 64 slices in a step (ours), a tenth of the step's operators' time (ours), a gain of 3 % [catalogue
2.3].

## When this advice is wrong
Slices of small tensors cost their calls, not what is filled: merging calls then brings more. Writing into
slices (`x[:, t] = ...`) is another matter, which `torch.stack` of a list cures.

## Prediction
By replay: half to all of what is filled and added for slices, and of pages mapped for it, likely nine tenths.

## References
torch.unbind; torch.split; derivatives.yaml: `select_backward`, `slice_backward`.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing
from ..model.diagnosis import Abstention, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import PROFILER, anatomy, anatomy_like, case_of, operators, own_s, spared
from .parts.entry import Case, Entry, given, profiled_cpu_step

ID = "sliced-in-a-loop"
SLICES = 64  # in a step at least (ours)
SHARE = 0.1  # of the operators' time at least (ours)
SPARED = (0.5, 0.9, 1.0)  # of it: low, likely, high (ours)
BACKWARD = ("select_backward", "slice_backward")
AS_MANY = ("fill_", "zero_", "add_")  # one each for a slice's gradient

UNBIND = Proposal(
    id="unbind-once",
    title="take all slices of a tensor in one call, before the loop",
    fix=Fix(
        "the loop over slices in the model",
        "for x_t in x.unbind(1):            # was: for t in range(x.size(1)): x[:, t]\n    h = cell(x_t, h)",
    ),
    risk="gradients may be added up in another order, and differ in the last digits",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when gradients of slices take a visible part of a profiled step."""
    scenario, profiled = given(diagnosis.scenario), given(anatomy(diagnosis))
    slices = operators(diagnosis, lambda name: name in BACKWARD)
    count = sum(one.calls for one in slices)
    if count < SLICES:
        return None
    whole = operators(diagnosis, lambda name: name in AS_MANY)
    taken = sum(one.self_cpu_s for one in slices)
    taken += sum(one.self_cpu_s * min(1.0, count / max(one.calls, 1.0)) for one in whole)
    share = min(1.0, taken / max(profiled.own_s, 1e-12))
    seconds = share * own_s(scenario)
    # what they fill was mapped for them
    changes = [replace(spared(scenario, part * seconds), paging=1 - part) for part in SPARED]
    factor = spread(scenario, *changes)
    if share < SHARE or factor[1] < WORTH:
        return None
    proposal = replace(UNBIND, factor=factor, most=gain(scenario, changes[2]))
    evidence = [
        Evidence("slices in a step that have a gradient", "slices_per_step", count, PROFILER),
        Evidence("share of the operators' time that fills and adds up gradients for them", "slice_share",
                 share, PROFILER),
    ]  # fmt: skip
    return Finding(ID, "model.compute", evidence, [proposal])


COST = StepCost(0.1, launch=0.005)
TABLE = [
    Operator("aten::select_backward", 700.0, 0.002),
    Operator("aten::fill_", 710.0, 0.02),
    Operator("aten::add_", 1400.0, 0.04),
]


def _case(table: list[Operator]) -> Diagnosis:
    """A step of 105 ms."""
    return case_of(COST, Computing(anatomies=[anatomy_like(COST, 4000)]), table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    few = [Operator("aten::select_backward", 8.0, 0.0001), *TABLE[1:]]
    small = [TABLE[0], Operator("aten::fill_", 710.0, 0.001), Operator("aten::add_", 710.0, 0.001)]
    return (
        Case("a recurrence over 256 steps takes its inputs one by one", _case(TABLE), "fires", "unbind-once"),
        Case("eight slices", _case(few), "silent"),
        Case("many slices of a small tensor", _case(small), "silent"),
        Case("no step was profiled", _case([]), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(profiled_cpu_step,), remedies=(UNBIND,))
