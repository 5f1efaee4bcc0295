"""The CPU multiplies bfloat16 several times as fast as float32, and the training uses float32.

## What it means
The processor has instructions for bfloat16 (AMX or AVX-512 BF16); most of the step is products and
convolutions in float32.

## Why it costs
AMX multiplies tiles of bfloat16 in hardware that float32 leaves idle. Half the bytes go through memory, too.

## How it is measured
torch says what the processor can do and which precision is set; the optimizer's weights say their type; the
graph behind the loss shows whether weights are cast; the profiled step says what products take.

## Thresholds
More than 0.4 of the operators' time in products and convolutions [catalogue F60], and half of it in calls of
0.2 ms and more (ours): small layers get slower, 0.83 to 1.19 ms for width 256 and batch 32 (measured).

## When this advice is wrong
Numbers change: eight bits of mantissa are enough for most trainings, not for all. Watch the loss. Reductions,
losses and small values may need float32.

## Prediction
Nothing is promised: whether other numbers will do is the owner's choice, and a training in float32 is not
ill. What it may bring at most, by replay on the products' share: with AMX ×2.7 under autocast (measured: MLP
2.7, convolutions 1.6), ×3.5 in `medium` precision (one large product, forward only); with AVX-512 BF16 alone
×2.0 (ours).

## References
torch.autocast, "CPU Ops that can autocast to bfloat16"; torch.set_float32_matmul_precision; PyTorch tutorial,
"Leverage Intel Advanced Matrix Extensions".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..analyse.threads import LARGE_S, LARGE_SHARE
from ..model.computing import Computing, Optimizer, ScriptSettings
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import (
    PROFILER,
    SETTINGS,
    anatomy,
    anatomy_like,
    case_of,
    faster,
    is_product,
    operators,
    optimizers,
    share_of,
    switches,
)
from .parts.entry import Case, Entry, given, profiled_cpu_step

ID = "cpu-bf16-unused"
PRODUCT_SHARE = 0.4  # of the operators' time [catalogue F60]
WITHOUT_AMX = 2.0  # (ours)

CASTING = """\
with torch.autocast("cpu", dtype=torch.bfloat16):      # forward pass and loss; backward follows
    loss = loss_fn(model(x), y)"""
CAST = Proposal(
    id="cpu-bf16",
    title="compute in bfloat16 where that is safe",
    fix=Fix("forward pass and loss", CASTING),
    apply="hook~",
    risk="numbers change: watch the loss",
    basis="bound",
    treatments=(Treatment("autocast", {"device": "cpu", "dtype": "bfloat16"}),),
)
ROUND = replace(
    CAST,
    id="cpu-fp32-precision-medium",
    title="let float32 products round to bfloat16",
    fix=Fix(
        "before the loop",
        'torch.set_float32_matmul_precision("medium")   # products only; weights stay float32',
    ),
    treatments=(Treatment("precision", {"matmul": "medium"}),),
)
WAYS = ((CAST, 2.7), (ROUND, 3.5))  # times as fast at most with AMX [catalogue F60, measured]


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when large float32 products run on a processor that could do better."""
    scenario, known = given(diagnosis.scenario), switches(diagnosis)
    if known is None or known.autocast is None or known.amx is None:
        return Abstention(ID, "what the processor can do and which precision the script has set")
    able = known.amx or known.avx512_bf16
    weights = {one.dtype for one in optimizers(diagnosis)}
    if not able or known.autocast or known.matmul_precision == "medium" or weights != {"float32"}:
        return None
    share, large = share_of(diagnosis, is_product), _large(diagnosis)
    if share < PRODUCT_SHARE or large < LARGE_SHARE:
        return None
    most = gain(scenario, Change(compute=1 - share))
    times = [(remedy, with_amx if known.amx else WITHOUT_AMX) for remedy, with_amx in WAYS]
    ranges = [(remedy, faster(scenario, share, (1.0, 1.0, one))) for remedy, one in times]
    proposals = [replace(remedy, factor=one, most=most) for remedy, one in ranges if one[2] >= WORTH]
    evidence = [
        Evidence("share of the operators' time in products and convolutions", "product_share", share,
                 PROFILER),
        Evidence("share of the operators' time in calls of 0.2 ms and more", "large_operator_share", large,
                 PROFILER),
        Evidence("AMX, which multiplies tiles of bfloat16, is there", "amx", float(known.amx), SETTINGS),
    ]  # fmt: skip
    return Finding(ID, "model.compute", evidence, proposals) if proposals else None


def _large(diagnosis: Diagnosis) -> float:
    """Share of the operators' time in large calls; 0 where the mean product is small."""
    found, products = anatomy(diagnosis), operators(diagnosis, is_product)
    calls = sum(one.calls for one in products)
    if found is None or not calls or sum(one.self_cpu_s for one in products) < LARGE_S * calls:
        return 0.0
    return min(1.0, found.large_s / max(found.own_s, 1e-12))


COST = StepCost(0.02, launch=0.001)
PRODUCTS = [Operator("aten::addmm", 6.0, 0.008), Operator("aten::mm", 12.0, 0.009)]
SMALL = [Operator("aten::addmm", 60.0, 0.008), Operator("aten::mm", 120.0, 0.009)]
ABLE = ScriptSettings(1, matmul_precision="highest", autocast=False, amx=True, avx512_bf16=True)


def _case(
    known: ScriptSettings = ABLE, table: list[Operator] = PRODUCTS, dtype: str = "float32"
) -> Diagnosis:
    """A model of large products, 20 ms a step."""
    weights = Optimizer(1, "AdamW", "torch", 8, 10**7, fused=True, device="cpu", dtype=dtype)
    facts = Computing(switches=[known], optimizers=[weights], anatomies=[anatomy_like(COST)])
    return case_of(COST, facts, table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("large float32 products on AMX", _case(), "fires", "cpu-bf16"),
        Case("AVX-512 BF16 alone", _case(replace(ABLE, amx=False)), "fires", "cpu-bf16"),
        Case("the processor cannot", _case(replace(ABLE, amx=False, avx512_bf16=False)), "silent"),
        Case("autocast is on", _case(replace(ABLE, autocast=True)), "silent"),
        Case("products round already", _case(replace(ABLE, matmul_precision="medium")), "silent"),
        Case("the weights are bfloat16", _case(dtype="bfloat16"), "silent"),
        Case("small products", _case(table=SMALL), "silent"),
        Case("this torch cannot say", _case(replace(ABLE, amx=None)), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(profiled_cpu_step,), remedies=(CAST, ROUND))
