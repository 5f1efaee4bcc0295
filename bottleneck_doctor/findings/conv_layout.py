"""Convolutions on the CPU work on weights that lie channels first in memory.

## What it means
The model is a convolutional one in torch's default layout (NCHW); its kernels rearrange data to compute.

## Why it costs
oneDNN's fast kernels want the channels of a pixel side by side. In the default layout inputs, outputs and
gradients are reordered again and again.

## How it is measured
The optimizer's four-dimensional weights say how they lie; the profiled step says how much of the operators'
time is in convolutions.

## Thresholds
Convolutions take more than 0.3 of the operators' time [catalogue F38], and not one wide kernel is channels
last.

## When this advice is wrong
Depthwise and grouped convolutions in float32 may get slower; operators that do not know the layout copy back.
Try it for fifty steps.

## Prediction
A range by replay on the convolutions' share: from 0.9 times as fast; over 1.15 (ours: a small network gave
1.35, four others with one thread 1.01 to 1.08, measured); to 1.76, the best published for an Ice Lake CPU.

## References
PyTorch tutorial "Channels Last Memory Format"; PyTorch blog, "Accelerating PyTorch Vision Models with
Channels Last on CPU".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.predict import WORTH
from ..model.computing import Computing, Optimizer
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Operator
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.computing import PROFILER, anatomy_like, case_of, faster, optimizers, share_of
from .parts.entry import Case, Entry, given, profiled_cpu_step

ID = "conv-layout"
CONVOLUTION_SHARE = 0.3  # of the operators' time [catalogue F38]
LAST = (0.9, 1.15, 1.76)  # times as fast, channels last [catalogue F38; PyTorch blog]

SNIPPET = """\
model = model.to(memory_format=torch.channels_last)      # before the optimizer is built, or after: in place
images = images.to(memory_format=torch.channels_last)    # each batch"""
CHANNELS_LAST = Proposal(
    id="channels-last",
    title="lay the channels of a pixel side by side in memory",
    fix=Fix("before the loop, and on each batch of images", SNIPPET),
    apply="hook~",
    risk="grouped convolutions in float32 may slow down; the last digits may differ",
    basis="bound",
    treatments=(Treatment("layout"),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when convolutions take much of the time and none is channels last."""
    scenario, known = given(diagnosis.scenario), optimizers(diagnosis)
    kernels = sum(one.kernels for one in known)
    share = share_of(diagnosis, is_convolution)
    if share < CONVOLUTION_SHARE or not kernels or any(one.kernels_channels_last for one in known):
        return None
    factor, most = faster(scenario, share, LAST), gain(scenario, Change(compute=1 - share))
    if factor[1] < WORTH:
        return None
    evidence = [
        Evidence("share of the operators' time in convolutions", "convolution_share", share, PROFILER),
        Evidence("convolution weights that lie channels first", "kernels", float(kernels), "the optimizer"),
    ]
    return Finding(ID, "model.compute", evidence, [replace(CHANNELS_LAST, factor=factor, most=most)])


def is_convolution(name: str) -> bool:
    """``mkldnn_convolution``, ``convolution_backward``, ``_slow_conv2d_forward`` and their like."""
    return "conv" in name


COST = StepCost(0.04, launch=0.001)
CONVOLUTIONS = [
    Operator("aten::convolution_backward", 6.0, 0.022),
    Operator("aten::mkldnn_convolution", 6.0, 0.01),
    Operator("aten::native_batch_norm", 6.0, 0.006),
]
IMAGES = Optimizer(1, "SGD", "torch", 20, 10**6, device="cpu", kernels=6)


def _case(one: Optimizer = IMAGES, table: list[Operator] = CONVOLUTIONS) -> Diagnosis:
    """A convolutional network's step of 40 ms."""
    return case_of(COST, Computing(optimizers=[one], anatomies=[anatomy_like(COST)]), table)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say."""
    return (
        Case("a convolutional network, channels first", _case(), "fires", "channels-last"),
        Case("channels last already", _case(replace(IMAGES, kernels_channels_last=6)), "silent"),
        Case("no wide kernels", _case(replace(IMAGES, kernels=0)), "silent"),
        Case("products take the time", _case(table=[Operator("aten::mm", 6.0, 0.03)]), "silent"),
        Case("no step was profiled", _case(table=[]), "abstains"),
    )


FINDING = Entry(ID, "model.compute", examine, needs=(profiled_cpu_step,), remedies=(CHANNELS_LAST,))
