"""Attention is written as product, softmax, product: the whole matrix of scores goes through memory.

## What it means
The step holds softmaxes over large matrices between batched products, and no fused attention.

## Why it costs
Scores grow with the square of the length. They are written and read some eight times forward and backward,
where the fused operator keeps a block of them in the cache.

## How it is measured
The profiled step: batched products, softmax and its backward, and how long one softmax takes.

## Thresholds
Together more than 0.15 of the operators' time [catalogue F40]; at least two batched products for each softmax
(ours); a softmax of 0.2 ms and more (ours), which is a matrix of some hundred thousand scores. Operators that
scale or mask belong to it if a mean call takes a quarter of a softmax and more (ours).

## When this advice is wrong
Attention whose weights are returned, or that adds to its scores what no mask can say, cannot be fused.
Dropout on the weights keeps the CPU's fused operator away.

## Prediction
A range by replay on that share: from nothing; over 2.0 (measured: batch 4, 8 heads, length 512, width 64,
forward and backward from 89 to 44 ms); to 3 (ours).

## References
torch.nn.functional.scaled_dot_product_attention; Dao et al., "FlashAttention".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from .parts.computing import PROFILER, anatomy_like, case_of, faster, operators, share_of
from .parts.entry import Case, Entry, given, profiled_cpu_step

ID = "attention-unfused"
ATTENTION_SHARE = 0.15  # of the operators' time [catalogue F40]
PRODUCTS = 2.0  # batched ones for each softmax (ours)
SOFTMAX_S = 2e-4  # for one of them: a matrix worth keeping out of memory (ours)
FUSED = (1.0, 2.0, 3.0)  # times as fast [catalogue F40, measured; ours]
SCALING = ("div", "div_", "mul", "mul_", "add", "add_", "masked_fill", "where")
# of a softmax's time, from which they do: a pass over scores takes half, small calls are mixed in (ours)
ALIKE = 0.25
NAMES = ("bmm", "baddbmm", "_softmax", "_softmax_backward_data", "masked_fill_")

FUSE = Proposal(
    id="sdpa-attention",
    title="compute attention in one operator",
    fix=Fix(
        "in place of product, softmax and product",
        "y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)   # or attn_mask=mask",
    ),
    effort="hours",
    risk="the weights themselves are no longer to be had; the last digits may differ",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when attention by hand takes a visible part of the time."""
    scenario = given(diagnosis.scenario)
    share = share_of(diagnosis, lambda name: name in NAMES)
    softmaxes = operators(diagnosis, lambda name: name == "_softmax")
    calls = sum(one.calls for one in softmaxes)
    each = sum(one.self_cpu_s for one in softmaxes) / calls if calls else 0.0
    products = sum(one.calls for one in operators(diagnosis, lambda name: name in ("bmm", "baddbmm")))
    if share < ATTENTION_SHARE or each < SOFTMAX_S or products < PRODUCTS * calls:
        return None
    whole = min(1.0, share + _scaling(diagnosis, each))
    factor = faster(scenario, whole, FUSED)
    if factor[1] < WORTH:
        return None
    proposal = replace(FUSE, factor=factor, most=gain(scenario, Change(compute=1 - whole)))
    evidence = [
        Evidence("share of the operators' time in attention", "attention_share", share, PROFILER),
        Evidence("softmaxes over scores in a step", "softmaxes", calls, PROFILER),
        Evidence("what one of them takes", "softmax_s", each, PROFILER),
    ]
    return Finding(ID, "model.compute", evidence, [proposal])


def _scaling(diagnosis: Diagnosis, softmax_s: float) -> float:
    """The share of the operators' time in those that scale or mask whole matrices of scores."""
    wide = [
        one.name
        for one in operators(diagnosis, lambda name: name in SCALING)
        if one.self_cpu_s >= ALIKE * softmax_s * one.calls
    ]
    return share_of(diagnosis, lambda name: f"aten::{name}" in wide)


COST = StepCost(0.05, launch=0.001)
BY_HAND = [
    Operator("aten::bmm", 12.0, 0.016),
    Operator("aten::_softmax", 2.0, 0.006),
    Operator("aten::_softmax_backward_data", 2.0, 0.005),
    Operator("aten::addmm", 8.0, 0.01),
]
FUSED_TABLE = [
    Operator("aten::_scaled_dot_product_flash_attention_for_cpu", 2.0, 0.01),
    Operator("aten::addmm", 8.0, 0.01),
]
ROUTER = [Operator("aten::bmm", 12.0, 0.03), Operator("aten::_softmax", 6.0, 1e-4)]


def _case(table: list[Operator]) -> Diagnosis:
    """A transformer's step of 50 ms."""
    return case_of(COST, Computing(anatomies=[anatomy_like(COST)]), table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("attention by hand over long sequences", _case(BY_HAND), "fires", "sdpa-attention"),
        Case("fused already", _case(FUSED_TABLE), "silent"),
        Case("experts are chosen by a small softmax", _case(ROUTER), "silent"),
        Case("no step was profiled", _case([]), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(profiled_cpu_step,), remedies=(FUSE,))
