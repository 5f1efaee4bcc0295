"""A data set that would fit the device's memory goes through loader and link in every epoch.

## What it means
Rows of tensors are picked on the host, stacked and copied, and after the last one it all begins anew.

## Why it costs
The loop waits for batches, or the device for copies, of data that could lie beside the kernels already.

## How it is measured
Bytes of a batch and the length of the data set against the device's memory less the allocator's peak; the
device's clock for the time that it waits for batches and copies. Not yet proven on hardware.

## Thresholds
The data set takes at most 0.4 of the memory that the peak leaves, and the device waits for batches or copies
for 0.05 of the step [catalogue F31]. Only data sets made of tensors are looked at: others would have to be
decoded first.

## When this advice is wrong
Random augmentation must then run on the device, on whole batches. Evaluation may need the memory at another
time. A data set on the device that is still read through a loader, one sample at a time, launches a kernel
per sample: it becomes slower than it was. Index whole batches.

## Prediction
By replay: no workers, no copies, and a few launches per batch in their place (0.1 to 0.5 ms of the host,
ours).

## References
pytorch/pytorch issue 106704, on samples indexed one by one on the device; torch.Tensor.index_select.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..model.derived import DeviceStepBreakdown, DeviceView, DriverView
from ..model.device import Allocator, DeviceFacts
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, Scenario
from ..model.fetches import Payload
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from .parts.advice import WAIT_SHARE, dearest, payload_of, spread
from .parts.computing import ALLOCATOR, CLOCK, beat_of, of_step
from .parts.entry import COPYING, PLACE, SATURATED, STARVED, Case, Entry, accelerated, device_step, given

ID = "small-dataset-on-host"
ROOM_SHARE = 0.4  # of the memory that the peak leaves [catalogue F31]
GATHER_S = (5e-4, 2e-4, 1e-4)  # host time to index one batch on the device (ours)
CAUSES = ("input.indexing", "input.preprocess", "input.collate", "input.ipc", "device.transfer")

RESIDENT = Proposal(
    id="gpu-resident-dataset",
    title="keep the whole data set on the device and index batches there",
    fix=Fix(
        "move the tensors once; no loader",
        "X, y = X.to(device), y.to(device)                          # once\n"
        "for rows in torch.randperm(len(X), device=device).split(batch_size):\n"
        "    train_step(X[rows], y[rows])                           # augment here, on whole batches",
    ),
    effort="hours",
    risk="augmentation moves to the device; batches come in another random order",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when a data set of tensors fits the device and the device waits for it."""
    view, beat, loader = given(diagnosis.device), beat_of(diagnosis), diagnosis.loader
    waiting = of_step(diagnosis, beat.input_s + beat.transfer_s)
    if loader is None or not loader.tensor_dataset or waiting < WAIT_SHARE:
        return None
    room, size = _room_bytes(view), _size_bytes(diagnosis, loader)
    if room is None or size is None:
        return Abstention(ID, "the size of a batch, and what the peak leaves of the device's memory")
    if size > ROOM_SHARE * room:
        return None
    evidence = [
        Evidence("share of the step in which the device waits for batches and copies", "device_wait_share",
                 waiting, CLOCK),
        Evidence("size of the whole data set", "dataset_bytes", size, "bytes of a batch"),
        Evidence("device memory that the peak leaves", "device_room_bytes", room, ALLOCATOR),
    ]  # fmt: skip
    proposal = replace(RESIDENT.at(loader.location), factor=_factor(given(diagnosis.scenario)))
    return Finding(ID, dearest(diagnosis, CAUSES), evidence, [proposal], loader.location)


def _room_bytes(view: DeviceView) -> float | None:
    whole, allocator = view.facts.memory_bytes or view.driver.memory_bytes, view.facts.allocator
    return whole - allocator.peak_bytes if whole and allocator is not None and allocator.peak_bytes else None


def _size_bytes(diagnosis: Diagnosis, loader: Loader) -> float | None:
    payload, samples = payload_of(diagnosis), loader.batch_size
    if payload is None or not samples or not loader.dataset_length:
        return None
    return loader.dataset_length * payload.tensor_bytes / samples


def _factor(scenario: Scenario) -> tuple[float, float, float]:
    making = fmean([work.cpu for work in scenario.works])
    changes = (
        Change(workers=0, cpu=min(1.0, one / max(making, 1e-12)), collate=0, storage=0, network=0, wait=0,
               ipc=0, startup=0, copying=0)
        for one in GATHER_S
    )  # fmt: skip
    return spread(scenario, *changes)


GIB = 2**30  # bytes, for the cases
ROWS = Loader("1:1", "dataloader", 1, "TensorDataset", batch_size=256, dataset_length=60_000,
              tensor_dataset=True, location=PLACE)  # fmt: skip
FILES = replace(ROWS, dataset="Photos", tensor_dataset=False)
SLOW_ROWS = BatchCost(0.035, 0.003)  # that two workers pick for 256 samples, one by one


def _case(
    beat: DeviceStepBreakdown | None, work: BatchCost, loader: Loader = ROWS, batch_bytes: float = 8e5
) -> Diagnosis:
    facts = DeviceFacts(memory_bytes=24 * GIB, allocator=Allocator(400, peak_bytes=4 * GIB))
    base = accelerated(beat, facts, loader=loader, work=work)
    return replace(base, profile=replace(base.profile, payloads=[Payload("1:1", 8, 2.0, batch_bytes)]))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    unseen = replace(_case(STARVED, SLOW_ROWS), device=DeviceView(DeviceFacts(), DriverView(), STARVED))
    return (
        Case("188 MB of rows, picked one by one", _case(STARVED, SLOW_ROWS), "fires", "gpu-resident-dataset"),
        Case(
            "the same rows, held up by copies",
            _case(COPYING, BatchCost(1e-3)),
            "fires",
            "gpu-resident-dataset",
        ),
        Case("too large for the device", _case(STARVED, SLOW_ROWS, batch_bytes=1e8), "silent"),
        Case("files, not rows", _case(STARVED, SLOW_ROWS, FILES), "silent"),
        Case("the device does not wait", _case(SATURATED, BatchCost(1e-3)), "silent"),
        Case("memory is not known", unseen, "abstains"),
        Case("only the driver was asked", _case(None, SLOW_ROWS), "abstains"),
    )


FINDING = Entry(ID, "device.transfer", examine, device=True, needs=(device_step,), remedies=(RESIDENT,))
