"""Convolutions use the library's first guess of an algorithm, or look for the best one again and again.

## What it means
cuDNN knows several algorithms for each convolution. With `cudnn.benchmark` it times them once for each new
shape and keeps the fastest; without, which is the default, it takes what a heuristic proposes.

## Why it costs
Where shapes stay the same, timing them once is cheap and the heuristic is sometimes wrong. Where shapes keep
changing, timing them is paid again and again.

## How it is measured
The switch itself, the number of new convolution shapes per hundred steps, and the share of the device's time
in convolutions, from a profiler's window. Not yet proven on hardware.

## Thresholds
Convolutions take 0.3 of the kernels' time. Off: at most 3 shapes in a hundred steps; on: more than 5 new
ones [catalogue F39].

## When this advice is wrong
The fastest algorithm may differ from run to run, and sums with it: reproducible runs leave it off. It may
use more memory. With `cudnn.deterministic` the choice is narrow. Often the heuristic was right, and nothing
moves.

## Prediction
By replay of the device's time in convolutions. On: nothing to a fifth of it saved (ours). Off: nothing to
half of it saved (ours: how long timing takes depends on the shapes).

## References
PyTorch Performance Tuning Guide, "Enable cuDNN auto-tuner"; torch.backends.cudnn.benchmark.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceFacts, TorchSettings
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import spread
from .parts.computing import WINDOW, kernel_share
from .parts.entry import LAUNCHING, SATURATED, Case, Entry, accelerated, device_step, given, kernels

ID = "cudnn-autotune-off"
CONVOLUTION_SHARE = 0.3  # of the kernels' time [catalogue F39]
FEW_SHAPES = 3.0  # per hundred steps [catalogue F39]
MANY_SHAPES = 5.0  # new ones per hundred steps [catalogue F39]
TUNED = (1.0, 0.9, 0.8)  # of the convolutions' time left when the best are taken (ours)
UNTUNED = (1.0, 0.8, 0.5)  # of it left when timing them ends (ours)

TUNE = Proposal(
    id="cudnn-benchmark",
    title="time the convolutions' algorithms once and keep the fastest",
    fix=Fix("before training; shapes must stay the same", "torch.backends.cudnn.benchmark = True"),
    basis="bound",
    apply="hook~",
    risk="results may differ in the last digits from run to run; the first steps are slower",
    treatments=(Treatment("cudnn", {"benchmark": True}),),
)
STOP_TUNING = Proposal(
    id="cudnn-benchmark-off",
    title="stop timing convolutions for every new shape",
    fix=Fix(
        "inputs vary in size: leave the choice to the heuristic, or pad to a few sizes",
        "torch.backends.cudnn.benchmark = False",
    ),
    basis="bound",
    apply="hook~",
    risk="shapes that do come back lose their best algorithm",
    treatments=(Treatment("cudnn", {"benchmark": False}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the switch stands against what the shapes do."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if not view.facts.kernels:
        return Abstention(ID, "kernels by kind")
    share = kernel_share(view, ("convolution",))
    if share < CONVOLUTION_SHARE:
        return None
    switches = view.facts.switches
    if switches is None or switches.cudnn_benchmark is None or switches.convolution_shapes is None:
        return Abstention(ID, "torch.backends.cudnn.benchmark, and the shapes of convolutions")
    shapes, tuned = switches.convolution_shapes, switches.cudnn_benchmark
    if shapes <= MANY_SHAPES if tuned else shapes > FEW_SHAPES:
        return None
    evidence = [
        Evidence("share of the kernels' time in convolutions", "convolution_share", share, WINDOW),
        Evidence("new shapes of convolutions per hundred steps", "convolution_shapes", shapes, WINDOW),
    ]
    remedy, lefts = (STOP_TUNING, UNTUNED) if tuned else (TUNE, TUNED)
    factor = spread(scenario, *(Change(device=1 - share * (1 - left)) for left in lefts))
    proposal = replace(remedy, factor=factor, most=gain(scenario, Change(device=1 - share)))
    return Finding(ID, "device.compute", evidence, [proposal])


CONVOLVING = [kernels("convolution", 0.8), kernels("elementwise", 0.2)]


def _case(
    beat: DeviceStepBreakdown | None, tuned: bool | None, shapes: float, convolutions: bool = True
) -> Diagnosis:
    found = CONVOLVING if convolutions else [kernels("matmul", 0.9)]
    switches = TorchSettings(cudnn_benchmark=tuned, convolution_shapes=shapes)
    return accelerated(beat, DeviceFacts(kernels=found, switches=switches))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("images of one size, by heuristic", _case(SATURATED, False, 1.0), "fires", "cudnn-benchmark"),
        Case("images of any size, timed each", _case(SATURATED, True, 60.0), "fires", "cudnn-benchmark-off"),
        Case("one size, timed once", _case(SATURATED, True, 1.0), "silent"),
        Case("any size, by heuristic", _case(SATURATED, False, 60.0), "silent"),
        Case("no convolutions", _case(LAUNCHING, False, 0.0, False), "silent"),
        Case("the switch was not read", _case(SATURATED, None, 1.0), "abstains"),
        Case("only the driver was asked", _case(None, False, 1.0), "abstains"),
    )


FINDING = Entry(
    ID, "device.compute", examine, device=True, needs=(device_step,), remedies=(TUNE, STOP_TUNING)
)
