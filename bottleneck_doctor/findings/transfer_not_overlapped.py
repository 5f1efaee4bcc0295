"""The device waits for each batch to be copied, and only then computes.

## What it means
Copies and kernels stand one behind the other on the same stream. The device can do both at once: its copy
engines work beside its multiprocessors.

## Why it costs
The link to the host is tens of times slower than the device's own memory. Kernels that wait for it
compute nothing, however busy the driver's utilisation looks.

## How it is measured
The device's clock: time in which the compute stream had work queued that waited for a copy. The copies' own
rows give their bytes, and how long the copy engine worked. Not yet proven on hardware.

## Thresholds
Kernels wait for copies for a tenth of the time that they compute [catalogue F30]. Smaller types are offered
where most bytes are float32 or float64.

## When this advice is wrong
Copying ahead needs pinned batches, room on the device for one batch more, and `record_stream` or an event so
that no memory is used again too early. A slow link (a card in the wrong slot) is gpu-hw-degraded. Data that
fits the device need not be copied each epoch at all: small-dataset-on-host.

## Prediction
By replay, from the measured wait: copying ahead hides what fits behind the kernels, half of it at worst
(ours). Half the bytes take half the time, a byte instead of float32 a quarter; at worst nothing is gained,
as the conversion costs time on the device.

## References
CUDA C++ Programming Guide, "Asynchronous concurrent execution"; torch.Tensor.record_stream; NVIDIA Apex,
data_prefetcher of the ImageNet example.
"""

from __future__ import annotations

from dataclasses import replace

from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceCopy, DeviceFacts
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import loader_with, spread
from .parts.computing import CALLS, CLOCK, beat_of, of_step, place
from .parts.entry import COPYING, SATURATED, Case, Entry, accelerated, device_step, given

ID = "transfer-not-overlapped"
EXPOSED_SHARE = 0.1  # of the device's busy time [catalogue F30]
AT_WORST = 0.5  # of what copying ahead could hide (ours)
WIDE = ("float32", "float64")

AHEAD = """\
side, batches = torch.cuda.Stream(), iter(loader)          # the loader with pin_memory=True
def copied():
    batch = next(batches, None)
    if batch is None: return None
    with torch.cuda.stream(side):
        return [one.to(device, non_blocking=True) for one in batch]
ahead = copied()
while ahead is not None:
    torch.cuda.current_stream().wait_stream(side)
    for one in ahead: one.record_stream(torch.cuda.current_stream())
    now, ahead = ahead, copied()                           # the next copy runs while `now` is used
    train_step(*now)"""
PREFETCH = Proposal(
    id="device-prefetcher",
    title="copy the next batch on a stream of its own while this one computes",
    fix=Fix("fetch and copy one batch ahead", AHEAD),
    apply="hook",
    effort="hours",
    risk="one batch more on the device; memory is reused too early without record_stream",
    treatments=(Treatment("device_ahead"),),
)
SMALLER = Proposal(
    id="half-inputs",
    title="send smaller types to the device: bytes or half precision instead of float32",
    fix=Fix(
        "return the smallest type that holds the data; convert on the device",
        "return torch.from_numpy(image), label       # uint8 from the data set: a quarter of float32\n"
        "x = x.to(device, non_blocking=True).float().div_(255)      # on the device",
    ),
    effort="hours",
    risk="half precision rounds; the conversion takes time on the device",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when kernels wait for copies to speak of."""
    beat, copies = beat_of(diagnosis), given(diagnosis.device).facts.copies
    if beat.transfer_s <= EXPOSED_SHARE * beat.busy_s:
        return None
    if not copies:
        return Abstention(ID, "the loop's copies to the device")
    moved, engine = sum(one.bytes for one in copies), sum(one.device_s for one in copies)
    largest = max(copies, key=lambda one: one.bytes)
    evidence = [
        Evidence("share of the step in which kernels wait for copies", "device_transfer_share",
                 of_step(diagnosis, beat.transfer_s), CLOCK),
        Evidence("bytes copied to the device per step", "copied_bytes", moved, CALLS),
        Evidence("time per step in which the copy engine works", "copy_engine_s", engine, CALLS),
    ]  # fmt: skip
    where = place(largest.file, largest.line)
    aside = sum(one.bytes for one in copies if one.side_stream) > moved / 2  # that was done already
    proposals = [] if aside else [_ahead(diagnosis, beat, max(engine, beat.transfer_s)).at(where)]
    wide = sum(one.bytes for one in copies if one.dtype in WIDE) / max(moved, 1e-12)
    if wide > 0.5:
        halves, quarters = Change(copying=1 - wide / 2), Change(copying=1 - 3 * wide / 4)
        factor = spread(given(diagnosis.scenario), Change(), halves, quarters)
        proposals.append(replace(SMALLER.at(where), factor=factor))
    return Finding(ID, "device.transfer", evidence, proposals, where)


def _ahead(diagnosis: Diagnosis, beat: DeviceStepBreakdown, copying_s: float) -> Proposal:
    """What the copy engine needs beyond the kernels' time stays exposed."""
    left = min(1.0, max(0.0, copying_s - beat.busy_s) / beat.transfer_s)
    worst = Change(copying=1 - AT_WORST * (1 - left))
    factor = spread(given(diagnosis.scenario), worst, Change(copying=left), Change(copying=left))
    pinning = () if diagnosis.loader is None else (loader_with(diagnosis.loader, pin_memory=True),)
    return replace(PREFETCH, factor=factor, treatments=(*pinning, *PREFETCH.treatments))


def _copies(dtype: str = "float32", engine_s: float = 0.009, aside: bool = False) -> DeviceFacts:
    copy = DeviceCopy(1e8, 1.0, 1e-4, engine_s, True, False, dtype, "train.py", 31, aside)
    return DeviceFacts(copies=[copy])


FLOODED = DeviceStepBreakdown(400, 0.02, 0.004, transfer_s=0.016, host_s=0.003)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("100 MB a step before the kernels", accelerated(COPYING, _copies()), "fires",
             "device-prefetcher"),
        Case("copies longer than all kernels", accelerated(FLOODED, _copies(engine_s=0.016)), "fires",
             "half-inputs"),
        Case("bytes already, on one stream", accelerated(COPYING, _copies("uint8")), "fires",
             "device-prefetcher"),
        Case("on a stream of their own already, and still too long",
             accelerated(FLOODED, _copies(engine_s=0.016, aside=True)), "fires", "half-inputs"),
        Case("copies are hidden behind kernels", accelerated(SATURATED, _copies()), "silent"),
        Case("copies were not watched", accelerated(COPYING), "abstains"),
        Case("only the driver was asked", accelerated(None), "abstains"),
    )  # fmt: skip


FINDING = Entry(
    ID, "device.transfer", examine, device=True, needs=(device_step,), remedies=(PREFETCH, SMALLER)
)
