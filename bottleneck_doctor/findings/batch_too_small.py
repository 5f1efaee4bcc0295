"""The device has room for a larger batch, and each step costs much that does not grow with the batch.

## What it means
Issuing a step costs the host the same for 32 samples as for 128, and a kernel over few samples leaves most
multiprocessors without work. Both are paid once per batch.

## Why it costs
A larger batch spreads these costs over more samples. Time per step grows, time per sample shrinks.

## How it is measured
The device's clock says whether the loop's issuing sets the pace; a profiler's window or the device's
counters say which share of the multiprocessors has work; the allocator says what the peak of memory was. Not
yet proven on hardware.

## Thresholds
Memory's peak is below 0.7 [SageMaker Debugger, batch size]; fewer than half of the multiprocessors have work
while the device is busy (ours), or it idles for the loop in a tenth of the step (ours). Waiting for data,
copies and readbacks is below a tenth of the step, or it would look the same for another reason.

## When this advice is wrong
A larger batch is another training: learning rate and schedule must follow, and some models generalise worse.
Batches grow by memory at its peak, which also holds weights and optimizer: there is usually more room than
promised. Where gradients are accumulated, fewer and larger micro-batches give the same gradients, except for
batch normalisation.

## Prediction
Per sample, by replay: the costs of issuing shrink with the batch; the device's own time by nothing at worst,
and at best until all multiprocessors have work. The loader's work per sample stays: where it sets the pace,
nothing is gained.

## References
Goyal et al. 2017, "Accurate, Large Minibatch SGD"; NVIDIA, "Deep Learning Performance Background".
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

from ..analyse.causes import gain
from ..analyse.step_costs import FILLED
from ..model.derived import DeviceStepBreakdown
from ..model.device import Allocator, DeviceFacts
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from .parts.advice import loader_call, spread
from .parts.computing import ACTIVE, ALLOCATOR, CLOCK, beat_of, of_step, peak_share
from .parts.entry import LAUNCHING, SATURATED, STARVED, Case, Entry, accelerated, device_step, given

ID = "batch-too-small"
PEAK_SHARE = 0.7  # of the device's memory [SageMaker Debugger, batch size]
FULL = 0.9  # of it that a larger batch may take [PyTorch Profiler's TensorBoard plugin]
IDLE_SHARE = 0.1  # of the step idle for the loop, or for anything else (ours)
TIMES_AT_MOST = 8  # larger: beyond, the learning rate is another question (ours)

LARGER = Proposal(
    id="bigger-batch",
    title="use larger batches",
    fix=Fix("then scale the learning rate and validate again", "DataLoader(..., batch_size=128)"),
    basis="bound",
    effort="hours",
    risk="another training: learning rate, schedule and generalisation change; the gain is per sample",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when fixed costs dominate and memory has room for at least twice the batch."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    if _otherwise_held_up(diagnosis):
        return None
    filled = view.facts.sm_active_share
    launching = of_step(diagnosis, beat_of(diagnosis).launch_s)
    sparse = filled is not None and filled < FILLED
    if not sparse and launching < IDLE_SHARE:
        return None if filled is not None else Abstention(ID, "the share of multiprocessors with work")
    peak = peak_share(view)
    if peak is None:
        return Abstention(ID, "the peak of the device's memory")
    times = _times(peak)
    if peak >= PEAK_SHARE or times < 2:
        return None
    evidence = [
        Evidence("peak of the device's memory", "device_peak_share", peak, ALLOCATOR),
        Evidence("share of the step in which the device waits to be given work", "device_launch_share",
                 launching, CLOCK),
        *([Evidence("share of multiprocessors with work while busy", "sm_active_share", filled, ACTIVE)]
          if filled is not None else []),
    ]  # fmt: skip
    proposal = _larger(diagnosis, scenario, times, filled if sparse and filled else 1.0)
    return Finding(ID, "device.underfilled" if sparse else "host.launch", evidence, [proposal])


def _times(peak: float) -> int:
    """The largest power of two by which the peak may grow, within bounds."""
    times = 1
    while 2 * times * peak <= FULL and times < TIMES_AT_MOST:
        times *= 2
    return times


def _otherwise_held_up(diagnosis: Diagnosis) -> bool:
    beat = beat_of(diagnosis)
    waits = beat.input_s + beat.sync_s + beat.transfer_s + beat.memory_s + beat.collective_s
    return of_step(diagnosis, waits) >= IDLE_SHARE


def _larger(diagnosis: Diagnosis, scenario: Scenario, times: int, filled: float) -> Proposal:
    """Per sample: what is paid once per batch is paid once for that many times as many samples."""
    fixed, loader = 1 / times, diagnosis.loader
    likely, best = max(fixed, sqrt(filled)), max(fixed, filled)
    factor = spread(scenario, Change(launch=(1 + fixed) / 2), Change(launch=fixed, device=likely),
                    Change(launch=fixed, device=best))  # fmt: skip
    most = gain(scenario, Change(launch=fixed, device=best))
    larger = replace(LARGER, factor=factor, most=most)
    if loader is not None and loader.batch_size:
        return larger.at(loader.location, loader_call(loader, batch_size=times * loader.batch_size))
    fix = replace(LARGER.fix, snippet="", location=loader.location if loader else None)
    return replace(larger, title=f"{LARGER.title} ({times} times the size)", fix=fix)


GIB = 2**30  # bytes, for the cases
SMALL_KERNELS = DeviceStepBreakdown(400, 0.02, 0.0195, launch_s=0.0005, host_s=0.006)


def _facts(peak: int = 10 * GIB, filled: float | None = 0.2) -> DeviceFacts:
    return DeviceFacts(
        memory_bytes=80 * GIB, allocator=Allocator(400, peak_bytes=peak), sm_active_share=filled
    )


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("busy with a fifth of the multiprocessors", accelerated(SMALL_KERNELS, _facts()), "fires",
             "bigger-batch"),
        Case("the loop issues tiny steps", accelerated(LAUNCHING, _facts(filled=None)), "fires",
             "bigger-batch"),
        Case("memory is full", accelerated(LAUNCHING, _facts(peak=70 * GIB)), "silent"),
        Case("large kernels fill the device", accelerated(SATURATED, _facts(filled=0.95)), "silent"),
        Case("no batch is there", accelerated(STARVED, _facts()), "silent"),
        Case("busy, with nobody knows how much", accelerated(SATURATED, _facts(filled=None)), "abstains"),
        Case("the allocator was not asked", accelerated(LAUNCHING), "abstains"),
        Case("only the driver was asked", accelerated(None, _facts()), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "device.underfilled", examine, device=True, needs=(device_step,), remedies=(LARGER,))
