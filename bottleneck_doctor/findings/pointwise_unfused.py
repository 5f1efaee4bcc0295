"""Chains of elementwise operators and norms read and write the device's memory once per operator.

## What it means
Activation, dropout, residual and norm are written as separate operators, and run as separate kernels. Each
reads its whole input and writes its whole output.

## Why it costs
Such kernels compute next to nothing: they wait for memory. A compiler that fuses a chain into one kernel
reads once and writes once.

## How it is measured
The share of the device's time in elementwise kernels and reductions, and their median length, from a
profiler's window. Not yet proven on hardware.

## Thresholds
0.3 of the kernels' time, and a median above 20 us: shorter ones are a matter of launching, not of memory
[catalogue F41]. Silent where the model is compiled already.

## When this advice is wrong
Mixed precision halves the same bytes with less trouble: compare the predictions. Compilation takes minutes,
and changing shapes start it anew. Operators that need each other's whole result, such as a norm, fuse only
in part.

## Prediction
By replay: two to four times as fast by the number of operators that fuse (ours), nothing gained at worst;
for ready-made fused modules half of that part of the kernels is assumed (ours).

## References
PyTorch Performance Tuning Guide, "Fuse operations"; Ivanov et al. 2021, "Data Movement Is All You Need".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceFacts, Kernels, TorchSettings
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import BANDWIDTH_KINDS, CLOCK, WINDOW, beat_of, kernel_share, of_step, saving
from .parts.entry import LAUNCHING, SATURATED, Case, Entry, accelerated, device_step, given, kernels
from .parts.remedies import COMPILE

ID = "pointwise-unfused"
POINTWISE_SHARE = 0.3  # of the kernels' time [catalogue F41]
LONG_S = 2e-5  # median kernel [catalogue F41]
FUSED_TIMES = (1.0, 2.0, 4.0)  # as fast by fusing two to four operators (ours)
READY_MADE = 0.5  # of these kernels that a fused module exists for (ours)

COMPILE_CHAINS = replace(
    COMPILE,
    title="compile the model: chains of operators become one kernel",
    fix=Fix("the whole model, or its hottest block", "model.compile()      # or model.layers[0].compile()"),
)
FUSED_MODULES = Proposal(
    id="fused-modules",
    title="use operators that come fused",
    fix=Fix(
        "for norms, attention and the optimizer",
        "F.scaled_dot_product_attention(q, k, v)      # instead of matmul, softmax, dropout, matmul\n"
        "nn.LayerNorm(width); torch.optim.AdamW(parameters, fused=True)",
    ),
    effort="hours",
    risk="results differ in the last digits",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when long elementwise kernels take much of the device's time and nothing fuses them."""
    view, scenario = given(diagnosis.device), given(diagnosis.scenario)
    if not view.facts.kernels:
        return Abstention(ID, "kernels by kind")
    share = kernel_share(view, BANDWIDTH_KINDS)
    longest = max((one.median_s for one in view.facts.kernels if one.kind in BANDWIDTH_KINDS), default=0.0)
    if share < POINTWISE_SHARE or longest < LONG_S:
        return None
    if view.facts.switches is None or view.facts.switches.compiled is None:
        return Abstention(ID, "whether the model is compiled")
    if view.facts.switches.compiled:
        return None
    evidence = [
        Evidence("share of the kernels' time in elementwise kernels and reductions", "pointwise_share", share,
                 WINDOW),
        Evidence("length of the median one", "median_kernel_s", longest, WINDOW),
        Evidence("share of the step in which the device is busy", "gpu_busy_fraction",
                 of_step(diagnosis, beat_of(diagnosis).busy_s), CLOCK),
    ]  # fmt: skip
    most = gain(scenario, Change(device=1 - share))
    proposals = [
        replace(
            remedy,
            factor=spread(scenario, *(Change(device=saving(part, times)) for times in FUSED_TIMES)),
            most=most,
        )
        for remedy, part in ((COMPILE_CHAINS, share), (FUSED_MODULES, READY_MADE * share))
    ]
    return Finding(ID, "device.compute", evidence, proposals)


CHAINS = [kernels("elementwise", 0.4), kernels("reduction", 0.15), kernels("matmul", 0.4)]
TINY = [kernels("elementwise", 0.2, median_s=4e-6), kernels("matmul", 0.1)]
PRODUCTS = [kernels("elementwise", 0.1), kernels("matmul", 0.85)]


def _case(beat: DeviceStepBreakdown | None, found: list[Kernels], compiled: bool | None = False) -> Diagnosis:
    return accelerated(beat, DeviceFacts(kernels=found, switches=TorchSettings(compiled=compiled)))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case(
            "norms and activations in their own kernels", _case(SATURATED, CHAINS), "fires", "torch-compile"
        ),
        Case("compiled already", _case(SATURATED, CHAINS, True), "silent"),
        Case("tiny kernels are another matter", _case(LAUNCHING, TINY), "silent"),
        Case("products take the time", _case(SATURATED, PRODUCTS), "silent"),
        Case("whether it is compiled is not known", _case(SATURATED, CHAINS, None), "abstains"),
        Case("only the driver was asked", _case(None, CHAINS), "abstains"),
    )


FINDING = Entry(
    ID, "device.compute", examine, device=True, needs=(device_step,), remedies=(COMPILE_CHAINS, FUSED_MODULES)
)
