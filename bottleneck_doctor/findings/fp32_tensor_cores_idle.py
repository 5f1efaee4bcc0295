"""Products and convolutions run in plain float32 on a device whose tensor cores stand idle.

## What it means
Since compute capability 7.0 nearly all devices have units for matrix products in lower precision. PyTorch
leaves matrix products in full float32 unless told otherwise; convolutions may use TF32 by default.

## Why it costs
The peak in plain float32 is a small part of what the same device does with tensor cores: 19.5 against 156
(TF32) and 312 TFLOP/s (16 bits) on an A100. Sixteen bits also halve what moves through memory.

## How it is measured
Kernels of a profiler's window by kind and precision, as shares of the device's time, on the device's own
clock; its compute capability. Not yet proven on hardware.

## Thresholds
Products, convolutions and attention in float32 take 0.3 of the kernels' time [catalogue F36]. TF32 and
bfloat16 need capability 8.0; below 8.0 only float16 runs on tensor cores.

## When this advice is wrong
Only the device's own time shrinks: where host or loader set the pace little is gained, and the prediction
says so. Losses that need float32, and sums of many terms, must stay out of autocast. float16 needs a
gradient scaler, and a trial cannot add one: `bdoc prove` tries bfloat16 only. TF32 keeps about three decimal
digits in each product, too few for some scientific work.

## Prediction
By replay from the measured shares. TF32 makes such kernels 1.5 to 7 times as fast (7: a large product in
PyTorch's notes; 1.5 and the likely 3 are ours); 16 bits 2 to 8 times, half of the ratio of peaks at best
(ours), and kernels that wait for memory up to twice.

## References
PyTorch CUDA semantics, "TensorFloat-32 (TF32) on Ampere (and later) devices"; PyTorch recipe "Automatic
Mixed Precision"; NVIDIA A100 data sheet.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.derived import DeviceStepBreakdown, DeviceView
from ..model.device import DeviceFacts, Kernels, TorchSettings
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import spread
from .parts.computing import (
    BANDWIDTH_KINDS,
    CLOCK,
    TENSOR_KINDS,
    WINDOW,
    beat_of,
    kernel_share,
    of_step,
    saving,
)
from .parts.entry import LAUNCHING, SATURATED, Case, Entry, accelerated, device_step, given, kernels

ID = "fp32-tensor-cores-idle"
PLAIN = "float32"
FLOAT32_SHARE = 0.3  # of the kernels' time [catalogue F36]
FIRST_WITH_TENSOR_CORES = (7, 0)  # compute capability [NVIDIA]
FIRST_WITH_TF32 = (8, 0)  # and with bfloat16 [NVIDIA]
TF32_TIMES = (1.5, 3.0, 7.0)  # as fast: ours, ours, a large product in PyTorch's CUDA notes
HALF_TIMES = (2.0, 3.0, 8.0)  # as fast on tensor cores: half the ratio of peaks at best (ours)
MEMORY_TIMES = (1.0, 1.5, 2.0)  # as fast for half the bytes: at most twice

TF32 = Proposal(
    id="tf32",
    title="let products in float32 use tensor cores (TF32)",
    fix=Fix(
        "before training",
        'torch.set_float32_matmul_precision("high")\n'
        "torch.backends.cudnn.allow_tf32 = True       # the default",
    ),
    basis="bound",
    apply="hook~",
    risk="products keep about three decimal digits; sums stay in float32",
    treatments=(Treatment("precision", {"matmul": "high", "convolutions": True}),),
)
AUTOCAST = """\
with torch.autocast("cuda", dtype=torch.bfloat16):      # no gradient scaler needed
    loss = loss_fn(model(x), y)
loss.backward()"""
MIXED = Proposal(
    id="amp",
    title="compute in 16 bits where that is safe (mixed precision)",
    fix=Fix("forward pass and loss under autocast", AUTOCAST),
    basis="bound",
    apply="hook~",
    effort="hours",
    risk="overflow and rounding: compare the loss curve with one in float32",
    treatments=(Treatment("autocast", {"device": "cuda", "dtype": "bfloat16"}),),
)
WITH_SCALER = """\
scaler = torch.amp.GradScaler("cuda")
with torch.autocast("cuda", dtype=torch.float16):
    loss = loss_fn(model(x), y)
scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"""


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when float32 products take much of the time of a device with tensor cores."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if view.facts.capability is None or not view.facts.kernels:
        return Abstention(ID, "compute capability, and kernels by kind and precision")
    share = _plain(view, TENSOR_KINDS)
    if view.facts.capability < FIRST_WITH_TENSOR_CORES or share < FLOAT32_SHARE:
        return None
    evidence = [
        Evidence("share of the kernels' time in float32 products and convolutions", "float32_share", share,
                 WINDOW),
        Evidence("share of the step in which the device is busy", "gpu_busy_fraction",
                 of_step(diagnosis, beat_of(diagnosis).busy_s), CLOCK),
        Evidence("compute capability {}.{}".format(*view.facts.capability)),
    ]  # fmt: skip
    return Finding(ID, "device.compute", evidence, _proposals(scenario, view))


def _plain(view: DeviceView, kinds: tuple[str, ...]) -> float:
    """The share of kernels in float32 that no tensor core was seen in: some are TF32 under that name."""
    whole = sum(one.device_s for one in view.facts.kernels or [])
    plain = [one for one in view.facts.kernels or [] if one.kind in kinds and one.precision == PLAIN]
    idle = sum(one.device_s * (1 - min(1.0, one.tensor_core_share or 0.0)) for one in plain)
    return idle / whole if whole > 0 else 0.0


def _proposals(scenario: Scenario, view: DeviceView) -> list[Proposal]:
    newer = (view.facts.capability or (0, 0)) >= FIRST_WITH_TF32
    mixed = view.facts.switches is not None and view.facts.switches.autocast
    asked = view.facts.switches is not None and view.facts.switches.matmul_precision in ("high", "medium")
    proposals = [_tf32(scenario, view)] if newer and not asked else []
    return proposals if mixed else [*proposals, _amp(scenario, view, newer)]


def _tf32(scenario: Scenario, view: DeviceView) -> Proposal:
    share = _plain(view, ("matmul", "convolution"))
    factor = spread(scenario, *(Change(device=saving(share, times)) for times in TF32_TIMES))
    return replace(TF32, factor=factor, most=gain(scenario, Change(device=1 - share)))


def _amp(scenario: Scenario, view: DeviceView, newer: bool) -> Proposal:
    tensors = _plain(view, TENSOR_KINDS)
    memory = kernel_share(view, BANDWIDTH_KINDS, PLAIN)
    pairs = zip(HALF_TIMES, MEMORY_TIMES, strict=True)
    changes = [Change(device=saving(tensors, one) + saving(memory, other) - 1) for one, other in pairs]
    mixed = MIXED if newer else replace(MIXED.at(None, WITH_SCALER), apply="manual", treatments=())
    factor = spread(scenario, *changes)
    return replace(mixed, factor=factor, most=gain(scenario, Change(device=max(0.0, 1 - tensors - memory))))


FLOAT32 = [kernels("matmul", 0.7, PLAIN), kernels("elementwise", 0.3, PLAIN)]
TENSORS = [replace(one, tensor_core_share=1.0) for one in FLOAT32]
HALF = [kernels("matmul", 0.6, "bfloat16"), kernels("elementwise", 0.4, PLAIN)]


def _case(
    beat: DeviceStepBreakdown | None, found: list[Kernels] | None, capability: tuple[int, int] = (8, 0)
) -> Diagnosis:
    return accelerated(beat, DeviceFacts(capability=capability, kernels=found, switches=TorchSettings()))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("matrix products in float32 on an A100", _case(SATURATED, FLOAT32), "fires", "tf32"),
        Case("the same on a V100", _case(SATURATED, FLOAT32, (7, 0)), "fires", "amp"),
        Case("and where launching sets the pace", _case(LAUNCHING, FLOAT32), "fires"),
        Case("no tensor cores", _case(SATURATED, FLOAT32, (6, 1)), "silent"),
        Case("float32 by name, TF32 in fact", _case(SATURATED, TENSORS), "silent"),
        Case("mixed precision already", _case(SATURATED, HALF), "silent"),
        Case("no window of the profiler", _case(SATURATED, None), "abstains"),
        Case("only the driver was asked", _case(None, FLOAT32), "abstains"),
    )


FINDING = Entry(ID, "device.compute", examine, device=True, needs=(device_step,), remedies=(TF32, MIXED))
