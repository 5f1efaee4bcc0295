"""The allocator goes back to the driver for device memory in the middle of training.

## What it means
PyTorch keeps freed device memory and hands it out again. When no kept block fits, or the script gave them
all back with `empty_cache()`, it frees and allocates through the driver, which waits for the device.

## Why it costs
The queue of kernels drains, the driver works for milliseconds, and the device stands still.

## How it is measured
Counters of the caching allocator between two steady steps; calls of `empty_cache`; the device's clock for
the idleness they cause. Not yet proven on hardware.

## Thresholds
More than one retry or driver allocation in a hundred steady steps, or any `empty_cache` there [catalogue
F33]; the device idles for it for 1 % of the step (ours).

## When this advice is wrong
The first steps, and the first evaluation, allocate with reason: they lie outside of the steady window. A
retry that succeeds is the last stop before running out of memory: if inputs vary in size, the peak may be
the true cause, and a smaller batch the cure. Libraries call `empty_cache` to make room for others on
purpose.

## Prediction
By replay without the measured idleness: all of it without `empty_cache`; none to all of it with expandable
segments (ours: they mend fragmentation, not a lack of memory).

## References
PyTorch CUDA semantics, "Memory management" and "Optimizing memory usage with PYTORCH_CUDA_ALLOC_CONF";
torch.cuda.memory_stats.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..model.derived import DeviceStepBreakdown
from ..model.device import Allocator, DeviceFacts
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import ENVIRONMENT, Treatment
from .parts.advice import spread
from .parts.computing import ALLOCATOR, CLOCK, beat_of, of_step
from .parts.entry import SATURATED, Case, Entry, accelerated, device_step, given

ID = "alloc-churn"
OFTEN = 0.01  # retries or driver allocations per steady step [catalogue F33]
IDLE_SHARE = 0.01  # of the step idle for the allocator (ours)
MENDED = (1.0, 0.5, 0.0)  # of that idleness left with expandable segments (ours)

DROP = Proposal(
    id="drop-empty-cache",
    title="leave freed device memory with the allocator",
    fix=Fix(
        "delete the call from the loop; dropping references is what frees memory",
        "torch.cuda.empty_cache()      # delete, except when handling torch.OutOfMemoryError",
    ),
    change=Change(allocating=0.0),
    apply="hook",
    risk="other processes on the device no longer get that memory meanwhile",
    treatments=(Treatment("empty_cache"),),
)
EXPAND = Proposal(
    id="expandable-segments",
    title="let the allocator grow its blocks instead of looking for new ones",
    fix=Fix(
        "set before the first use of the device",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    ),
    basis="bound",
    apply="env",
    risk="does not help where memory is truly short; not on every platform",
    treatments=(Treatment(ENVIRONMENT, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),),
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the allocator returns to the driver in steady state and the device idles for it."""
    scenario, allocator = given(diagnosis.scenario), given(diagnosis.device).facts.allocator
    idle = of_step(diagnosis, beat_of(diagnosis).memory_s)
    if idle < IDLE_SHARE:
        return None
    if allocator is None or not allocator.steps:
        return Abstention(ID, "the allocator's counters in steady state")
    often = max(allocator.retries, allocator.device_allocs) > OFTEN * allocator.steps
    if not often and not allocator.empty_cache_calls:
        return None
    evidence = [
        Evidence("share of the step in which the device idles for the allocator", "device_memory_share", idle,
                 CLOCK),
        Evidence("allocations through the driver per step", "driver_allocations",
                 allocator.device_allocs / allocator.steps, ALLOCATOR),
        Evidence("retries after giving cached blocks back, per step", "allocation_retries",
                 allocator.retries / allocator.steps, ALLOCATOR),
        Evidence("calls of empty_cache per step", "empty_cache_calls",
                 allocator.empty_cache_calls / allocator.steps, "hook on empty_cache"),
    ]  # fmt: skip
    if allocator.empty_cache_calls:
        return Finding(ID, "device.memory", evidence, [DROP])
    factor = spread(scenario, *(Change(allocating=left) for left in MENDED))
    expand = replace(EXPAND, factor=factor, most=gain(scenario, Change(allocating=0.0)))
    return Finding(ID, "device.memory", evidence, [expand])


CHURNING = DeviceStepBreakdown(400, 0.02, 0.013, memory_s=0.004, launch_s=0.003, host_s=0.01)
CALLED = {"device_allocs": 900, "empty_cache_calls": 400}
FRAGMENTED = {"device_allocs": 300, "retries": 40}


def _facts(counters: dict[str, int]) -> DeviceFacts:
    return DeviceFacts(allocator=Allocator(400, **counters))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("empty_cache in every step", accelerated(CHURNING, _facts(CALLED)), "fires", "drop-empty-cache"),
        Case("fragmented by inputs of many sizes", accelerated(CHURNING, _facts(FRAGMENTED)), "fires",
             "expandable-segments"),
        Case("one allocation in a long run", accelerated(SATURATED, _facts({"device_allocs": 1})), "silent"),
        Case("no counters were read", accelerated(CHURNING), "abstains"),
        Case("only the driver was asked", accelerated(None), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "device.memory", examine, device=True, needs=(device_step,), remedies=(DROP, EXPAND))
