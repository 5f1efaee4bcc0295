"""Cases of the findings in device_compute.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.device import (
    Allocator,
    DeviceFacts,
    DeviceSync,
    DeviceWindow,
    DriverView,
    Kernels,
    TorchSettings,
)
from bottleneck_doctor.model.diagnosis import Diagnosis
from bottleneck_doctor.model.profile import CompilerNote, Computing
from tests.findings.builders import (
    COPYING,
    LAUNCHING,
    SATURATED,
    STARVED,
    SYNCING,
    Case,
    abstains,
    accelerator_run,
    fires,
    kernels,
    silent,
)

# launch-bound
SHORT = [Kernels("elementwise", 0.003, 600.0, 4e-6), Kernels("matmul", 0.003, 200.0, 1.2e-5)]
LONG = [Kernels("matmul", 0.006, 12.0, 5e-4)]
STALLED = DeviceWindow(400, 0.02, 0.012, launch_s=0.001, input_s=0.007, host_s=0.005)


def _kernels_case(
    beat: DeviceWindow, found: list[Kernels] | None, compiled: bool | None = False
) -> Diagnosis:
    return accelerator_run(beat, DeviceFacts(kernels=found, switches=TorchSettings(compiled=compiled)))


def _in_pieces() -> Diagnosis:
    note = CompilerNote(
        1, "graph break", "Unsupported Tensor.item() call", 12, Location("model.py", 40, "forward")
    )
    sick = _kernels_case(LAUNCHING, SHORT, True)
    return replace(sick, profile=replace(sick.profile, computing=Computing(compiler_notes=[note])))


def launch_bound() -> tuple[Case, ...]:
    return (
        fires("800 kernels of a few microseconds", _kernels_case(LAUNCHING, SHORT), "torch-compile"),
        fires("compiled already", _kernels_case(LAUNCHING, SHORT, True), "cuda-graphs -whole-graph"),
        fires("compiled, in pieces", _in_pieces(), "whole-graph"),
        silent("few large kernels, and a slow loop", _kernels_case(LAUNCHING, LONG)),
        silent("the device is kept busy", _kernels_case(SATURATED, SHORT)),
        silent("no batch is there", _kernels_case(STALLED, SHORT)),
        abstains("no window of the profiler", _kernels_case(LAUNCHING, None)),
    )


# pointwise-unfused
CASTS = [Kernels("elementwise", 0.011, 200.0, 5e-6), kernels("matmul", 0.4)]
CHAINS = [kernels("elementwise", 0.4), kernels("reduction", 0.15), kernels("matmul", 0.4)]
PRODUCTS = [kernels("elementwise", 0.1), kernels("matmul", 0.85)]


def pointwise_unfused() -> tuple[Case, ...]:
    return (
        fires("norms in their own kernels", _kernels_case(SATURATED, CHAINS), "torch-compile"),
        fires("most of them small casts", _kernels_case(SATURATED, CASTS), "torch-compile"),
        silent("compiled already", _kernels_case(SATURATED, CHAINS, True)),
        silent("products take the time", _kernels_case(SATURATED, PRODUCTS)),
        abstains("whether it is compiled is not known", _kernels_case(SATURATED, CHAINS, None)),
    )


# batch-too-small
GIB = 2**30  # bytes, for the cases
SMALL_KERNELS = DeviceWindow(400, 0.02, 0.0195, launch_s=0.0005, host_s=0.006)


def _batch_facts(peak: int = 10 * GIB, filled: float | None = 0.2) -> DeviceFacts:
    return DeviceFacts(
        memory_bytes=80 * GIB, allocator=Allocator(400, peak_bytes=peak), sm_active_share=filled
    )


def batch_too_small() -> tuple[Case, ...]:
    return (
        fires("few multiprocessors", accelerator_run(SMALL_KERNELS, _batch_facts()), "bigger-batch"),
        fires("tiny steps", accelerator_run(LAUNCHING, _batch_facts(filled=None)), "bigger-batch"),
        silent("memory is full", accelerator_run(LAUNCHING, _batch_facts(peak=70 * GIB))),
        silent("large kernels fill the device", accelerator_run(SATURATED, _batch_facts(filled=0.95))),
        silent("no batch is there", accelerator_run(STARVED, _batch_facts())),
        abstains("busy, but how full is not known", accelerator_run(SATURATED, _batch_facts(filled=None))),
        abstains("the allocator was not asked", accelerator_run(LAUNCHING)),
    )


# cudnn-autotune-off
CONVOLVING = [kernels("convolution", 0.8), kernels("elementwise", 0.2)]


def _cudnn_case(
    beat: DeviceWindow | None, tuned: bool | None, shapes: float, convolutions: bool = True
) -> Diagnosis:
    found = CONVOLVING if convolutions else [kernels("matmul", 0.9)]
    switches = TorchSettings(cudnn_benchmark=tuned, convolution_shapes=shapes)
    return accelerator_run(beat, DeviceFacts(kernels=found, switches=switches))


def cudnn_autotune_off() -> tuple[Case, ...]:
    return (
        fires("images of one size, by heuristic", _cudnn_case(SATURATED, False, 1.0), "cudnn-benchmark"),
        fires("images of any size, timed each", _cudnn_case(SATURATED, True, 60.0), "cudnn-benchmark-off"),
        silent("any size, by heuristic", _cudnn_case(SATURATED, False, 60.0)),
        silent("no convolutions", _cudnn_case(LAUNCHING, False, 0.0, False)),
        abstains("the switch was not read", _cudnn_case(SATURATED, None, 1.0)),
    )


# sync-points
def _sync_facts(idle_s: float = 0.006, file: str = "train.py") -> DeviceFacts:
    return DeviceFacts(syncs=[DeviceSync("item", 2.0, 0.011, idle_s, file, 40)])


SCALER = "torch/amp/grad_scaler.py"
ENDING = DeviceWindow(400, 0.02, 0.0195, sync_s=0.0003, host_s=0.008)


def sync_points() -> tuple[Case, ...]:
    return (
        fires("the loss is printed every step", accelerator_run(SYNCING, _sync_facts()), "defer-readback"),
        silent("long waits that end just in time", accelerator_run(ENDING, _sync_facts(0.0003))),
        silent("the gradient scaler's own flag", accelerator_run(SYNCING, _sync_facts(file=SCALER))),
        abstains("idle, and no calls were watched", accelerator_run(SYNCING)),
    )


# gpu-hw-degraded
HOT = DriverView(100, 0.99, 0.5, {"sw_thermal": 0.8}, link_share=1.0)
AS_BUILT = DriverView(100, 0.99, 0.75, {"power_cap": 1.0}, power_limit_w=700.0, power_default_w=700.0)
NARROW = DriverView(100, 0.7, 0.95, link_share=0.25, link_gen=3.0, link_gen_max=4.0, link_width=8.0,
                    link_width_max=16.0)  # fmt: skip
BRIEF = DriverView(4, 0.99, 0.5, {"sw_thermal": 1.0})


def gpu_hw_degraded() -> tuple[Case, ...]:
    return (
        fires("hot, at half its clock", accelerator_run(SATURATED, driver=HOT), "cooling-or-power"),
        fires("hot, by the driver's word alone", accelerator_run(None, driver=HOT), "cooling-or-power"),
        fires("eight lanes of an older generation", accelerator_run(COPYING, driver=NARROW), "reseat-pcie"),
        silent("at its power limit as designed", accelerator_run(SATURATED, driver=AS_BUILT)),
        abstains("two seconds of readings", accelerator_run(SATURATED, driver=BRIEF)),
    )


# gpu-shared


def _shared_case(
    beat: DeviceWindow | None, ours: float | None, processes: float | None, held: float = 0.0
) -> Diagnosis:
    driver = DriverView(100, 0.99, foreign_processes=processes, foreign_bytes=held, memory_bytes=80 * GIB,
                        our_share=ours)  # fmt: skip
    return accelerator_run(beat, driver=driver)


def gpu_shared() -> tuple[Case, ...]:
    return (
        fires("a neighbour takes half of it", _shared_case(SATURATED, 0.5, 1.0, 9 * GIB), "exclusive-gpu"),
        fires("known from the driver alone", _shared_case(None, 0.5, 1.0, 9 * GIB), "exclusive-gpu"),
        fires("an open notebook holds memory", _shared_case(SATURATED, None, 1.0, 20 * GIB)),
        silent("no other process", _shared_case(SATURATED, 1.0, 0.0)),
        silent("a display", _shared_case(SATURATED, 0.99, 1.0, GIB)),
        abstains("process numbers of the host", _shared_case(SATURATED, None, None)),
    )
