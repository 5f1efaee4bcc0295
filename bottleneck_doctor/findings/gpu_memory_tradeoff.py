"""Activations are computed twice to save device memory, of which there is plenty.

## What it means
Activation checkpointing throws away what the forward pass has computed, and computes it again for the
backward pass. It buys memory with time.

## Why it costs
One more forward pass of the wrapped blocks in every step.

## How it is measured
Device time of the repeated forward passes from a profiler's window; the allocator's peak against the
device's memory. Not yet proven on hardware.

## Thresholds
The peak is below 0.6 of the memory [catalogue F43], and the repetition takes 3 % of the step (ours).

## When this advice is wrong
Without it the peak rises by the activations that are kept, which cannot be seen while they are thrown away:
the first step shows whether they fit. Longer inputs later in the run may need the room. Wrapping only some
of the blocks is the way between.

## Prediction
By replay without the measured repetition; half of it where only some blocks fit (ours). That memory is full,
and checkpointing would allow a larger batch, is not judged: it slows each step, and whether it pays cannot
be known before it was tried.

## References
torch.utils.checkpoint; Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost".
"""

from __future__ import annotations

from dataclasses import replace

from ..model.derived import DeviceStepBreakdown
from ..model.device import Allocator, DeviceFacts
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding
from ..model.report import Evidence
from .parts.advice import spread
from .parts.computing import ALLOCATOR, WINDOW, beat_of, of_step, peak_share
from .parts.entry import SATURATED, Case, Entry, accelerated, device_step, given
from .parts.remedies import KEEP_ACTIVATIONS

ID = "gpu-memory-tradeoff"
PEAK_SHARE = 0.6  # of the device's memory [catalogue F43]
REPEATED_SHARE = 0.03  # of the step (ours)
SOME = 0.5  # of the repetition that goes at worst (ours)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when forward work is repeated while memory stands empty."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    repeated = view.facts.recompute_s
    if repeated is None:
        return Abstention(ID, "device time of activation checkpointing")
    share = of_step(diagnosis, repeated)
    if share < REPEATED_SHARE:
        return None
    peak = peak_share(view)
    if peak is None:
        return Abstention(ID, "the peak of the device's memory")
    if peak >= PEAK_SHARE:
        return None
    evidence = [
        Evidence("share of the step in which forward work is repeated", "recompute_share", share, WINDOW),
        Evidence("peak of the device's memory", "device_peak_share", peak, ALLOCATOR),
    ]
    part = min(1.0, repeated / max(beat_of(diagnosis).busy_s, repeated))
    gone = Change(device=1 - part)
    factor = spread(scenario, Change(device=1 - SOME * part), gone, gone)
    return Finding(ID, "device.compute", evidence, [replace(KEEP_ACTIVATIONS, factor=factor)])


GIB = 2**30  # bytes, for the cases


def _case(beat: DeviceStepBreakdown | None, repeated: float | None, peak: int | None = 24) -> Diagnosis:
    """``peak`` in GiB of 80."""
    allocator = None if peak is None else Allocator(400, peak_bytes=peak * GIB)
    return accelerated(beat, DeviceFacts(memory_bytes=80 * GIB, allocator=allocator, recompute_s=repeated))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case(
            "a third of the memory, every block twice", _case(SATURATED, 0.005), "fires", "checkpointing-off"
        ),
        Case("memory is needed", _case(SATURATED, 0.005, 70), "silent"),
        Case("nothing is repeated", _case(SATURATED, 0.0), "silent"),
        Case("the allocator was not asked", _case(SATURATED, 0.005, None), "abstains"),
        Case("checkpointing was not watched", _case(SATURATED, None), "abstains"),
        Case("only the driver was asked", _case(None, 0.005), "abstains"),
    )


FINDING = Entry(
    ID, "device.compute", examine, device=True, needs=(device_step,), remedies=(KEEP_ACTIVATIONS,)
)
