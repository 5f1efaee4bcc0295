"""The device waits for the loop to issue its kernels: they are many, small, and started one by one.

## What it means
Python, the dispatcher and the driver need some microseconds for each kernel. Where kernels are shorter than
that, the device finishes each one and waits for the next.

## Why it costs
The step takes as long as the host needs to issue it, on one core. A faster device changes nothing. The
driver's utilisation hides it: it counts time in which any kernel is resident, and tiny kernels that follow
each other closely read as a busy device.

## How it is measured
The device's clock: idleness while the loop was issuing work, with no batch, copy or readback to wait for;
the kernels' number and median length from a profiler's window. Not yet proven on hardware.

## Thresholds
The device is busy for less than 0.7 of the step, idles for the loop in a tenth of it (ours), and half of the
kernels take less than 50 us [catalogue F34]. Longer kernels with the same idleness mean that the loop does
something else: Python of its own.

## When this advice is wrong
Compilation takes minutes and pays only over many steps; shapes that vary compile again and again, and graphs
need fixed shapes and addresses. A host that is short of cores, or throttled, launches slowly for that
reason: see the findings about cores first. A profiler that records stacks slows launching itself.

## Prediction
By replay, never below what the device itself needs: compiling issues as much as now to half of it (the range
that PyTorch's documentation gives for small models), graphs between 1/1.2 and 1/3 (NVIDIA's range).

## References
PyTorch, "torch.compiler"; "Accelerating PyTorch with CUDA Graphs"; NVML, nvmlDeviceGetUtilizationRates.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceFacts, Kernels, TorchSettings
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.advice import spread
from .parts.computing import CLOCK, WINDOW, beat_of, of_step
from .parts.entry import LAUNCHING, SATURATED, SYNCING, Case, Entry, accelerated, device_step, given
from .parts.remedies import COMPILE

ID = "launch-bound"
BUSY_SHARE = 0.7  # of the step, above which the device is not waiting to speak of [catalogue F34]
IDLE_SHARE = 0.1  # of the step idle while the loop issues work (ours)
SHORT_S = 5e-5  # median kernel [catalogue F34]
COMPILED = (1.0, 0.7, 0.5)  # of the host's time to issue a step [catalogue F34]
GRAPHED = (1 / 1.2, 1 / 1.8, 1 / 3)  # [catalogue F34]; the middle is ours
CROWDED_CORES = 0.5  # of strangers', from which launching may be slow for want of a core [catalogue F57]

COMPILE_MODEL = replace(COMPILE, title="compile the model: fewer, larger kernels")
GRAPHS = Proposal(
    id="cuda-graphs",
    title="record the step once and replay it with one launch",
    fix=Fix(
        "let the compiler record graphs, or use torch.cuda.make_graphed_callables",
        'model.compile(mode="reduce-overhead")',
    ),
    effort="hours",
    risk="fixed shapes, no readbacks inside; memory of a graph is not given back",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the device idles because short kernels are issued too slowly."""
    view, scenario, beat = given(diagnosis.device), given(diagnosis.scenario), beat_of(diagnosis)
    waiting = of_step(diagnosis, beat.launch_s)
    if waiting < IDLE_SHARE or of_step(diagnosis, beat.busy_s) >= BUSY_SHARE:
        return None
    if not view.facts.kernels:
        return Abstention(ID, "the length of kernels")
    median = median_s(view.facts.kernels)
    if median >= SHORT_S:
        return None
    count = sum(one.calls for one in view.facts.kernels)
    foreign = diagnosis.host.foreign_cores or 0.0
    evidence = [
        Evidence("share of the step in which the device waits to be given work", "device_launch_share",
                 waiting, CLOCK),
        Evidence("share of the step in which it is busy", "gpu_busy_fraction",
                 of_step(diagnosis, beat.busy_s), CLOCK),
        Evidence("time that the loop needs to issue a step", "host_issue_s", beat.host_s, WINDOW),
        Evidence("kernels per step", "kernels", count, WINDOW),
        Evidence("length of the median kernel", "median_kernel_s", median, WINDOW),
        *([Evidence("cores that others used", "foreign_cores", foreign, "/proc/stat less the process tree")]
          if foreign >= CROWDED_CORES else []),
    ]  # fmt: skip
    ways = [(COMPILE_MODEL, COMPILED), (GRAPHS, GRAPHED)]
    if view.facts.switches is not None and view.facts.switches.compiled:
        ways = ways[1:]
    most = gain(scenario, Change(launch=0.0))
    proposals = [
        replace(remedy, factor=spread(scenario, *(Change(launch=one) for one in left)), most=most)
        for remedy, left in ways
    ]
    return Finding(ID, "host.launch", evidence, proposals)


def median_s(kernels: list[Kernels]) -> float:
    """The median kernel's length, each kind standing at its own median."""
    half, seen = sum(one.calls for one in kernels) / 2, 0.0
    for one in sorted(kernels, key=lambda one: one.median_s):
        seen += one.calls
        if seen >= half:
            return one.median_s
    return 0.0


SHORT = [Kernels("elementwise", 0.003, 600.0, 4e-6), Kernels("matmul", 0.003, 200.0, 1.2e-5)]
LONG = [Kernels("matmul", 0.006, 12.0, 5e-4)]
STALLED = DeviceStepBreakdown(400, 0.02, 0.012, launch_s=0.001, input_s=0.007, host_s=0.005)


def _case(
    beat: DeviceStepBreakdown | None, kernels: list[Kernels] | None, compiled: bool = False
) -> Diagnosis:
    return accelerated(beat, DeviceFacts(kernels=kernels, switches=TorchSettings(compiled=compiled)))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("800 kernels of a few microseconds", _case(LAUNCHING, SHORT), "fires", "torch-compile"),
        Case("compiled already", _case(LAUNCHING, SHORT, True), "fires", "cuda-graphs"),
        Case("few large kernels, and a slow loop", _case(LAUNCHING, LONG), "silent"),
        Case("the device is kept busy", _case(SATURATED, SHORT), "silent"),
        Case("the queue is emptied by readbacks", _case(SYNCING, SHORT), "silent"),
        Case("no batch is there", _case(STALLED, SHORT), "silent"),
        Case("no window of the profiler", _case(LAUNCHING, None), "abstains"),
        Case("only the driver was asked", _case(None, SHORT), "abstains"),
    )


FINDING = Entry(
    ID, "host.launch", examine, device=True, needs=(device_step,), remedies=(COMPILE_MODEL, GRAPHS)
)
