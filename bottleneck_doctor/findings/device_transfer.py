"""Copies from the host to the accelerator."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..analyse.device import runs_ahead
from ..analyse.predict import TRIFLE
from ..analyse.shares import MOST, NOTICED, TRACE
from ..model.device import DeviceCopy
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .facts import ALLOCATOR, CALLS, CLOCK, WAIT_SHARE, beat_of, dearest, of_step, payload_of, place
from .registry import device_step, finding, given, snippet
from .remedies import SMALLER, WHOLLY, each, left_of, loader_call, loader_with, priced

# transfer-not-overlapped
WIDE = ("float32", "float64")
PREFETCH = Proposal(
    id="device-prefetcher",
    title="copy the next batch on a stream of its own while this one computes",
    fix=Fix("fetch and copy one batch ahead", snippet("device_transfer", "AHEAD")),
    apply="hook",
    effort="hours",
    risk="one batch more on the device; memory is reused too early without record_stream",
    treatments=(Treatment("device_ahead"),),
)


@finding("device.transfer", PREFETCH, SMALLER, needs=(device_step,), device=True)
def transfer_not_overlapped(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when kernels wait for copies for a large part of the busy time."""
    beat, copies = beat_of(diagnosis), given(diagnosis.device).facts.copies
    scenario = given(diagnosis.scenario)
    if beat.transfer_s <= NOTICED * beat.busy_s:
        return None
    if not copies:
        return "the loop's copies to the device"
    moved, engine = sum(one.bytes for one in copies), sum(one.device_s for one in copies)
    if sum(one.bytes for one in copies if not one.pinned) > moved / 2:
        return None  # no stream copies ahead from pageable memory: pageable-copies comes first
    largest = max(copies, key=lambda one: one.bytes)
    evidence = [
        _waiting(diagnosis),
        Evidence("bytes copied to the device per step", "copied_bytes", moved, CALLS),
        Evidence("time per step in which the copy engine works", "copy_engine_s", engine, CALLS),
    ]
    where = place(largest.file, largest.line)
    proposals = []
    if sum(one.bytes for one in copies if one.side_stream) <= moved / 2:  # else they are ahead already
        rest_s = max(engine, beat.transfer_s) - beat.busy_s  # what no kernel is there to hide
        changes = each(copying=left_of(1 - min(1.0, max(0.0, rest_s) / beat.transfer_s), WHOLLY))
        pinning = () if diagnosis.loader is None else (loader_with(diagnosis.loader, pin_memory=True),)
        ahead = replace(PREFETCH.at(where), treatments=(*pinning, *PREFETCH.treatments))
        proposals.append(priced(ahead, scenario, *changes))
    wide = sum(one.bytes for one in copies if one.dtype in WIDE) / max(moved, 1e-12)
    if wide > MOST:
        changes = each(copying=left_of(wide, (1.0, 0.5, 0.25)))  # as it is, halves, single bytes
        proposals.append(priced(SMALLER.at(where), scenario, *changes, most=changes[-1]))
    return Finding("transfer-not-overlapped", "device.transfer", evidence, proposals, where)


def _waiting(diagnosis: Diagnosis) -> Evidence:
    text, waited_s = "share of the step in which kernels wait for copies", beat_of(diagnosis).transfer_s
    return Evidence(text, "device_transfer_share", of_step(diagnosis, waited_s), CLOCK)


# pageable-copies
PINNED = (1.0, 0.75, 0.5)  # of a copy's time from pageable memory: half at best, since it is copied twice
NO_WAIT = "X = X.to(DEVICE, non_blocking=True)"
PIN = Proposal(
    id="pin-and-nonblocking",
    title="let copies to the device overlap with the loop",
    fix=Fix("pin batches, and do not wait for the copy", f"DataLoader(..., pin_memory=True)\n{NO_WAIT}"),
    apply="hook",
    risk="page-locked memory is taken from the rest of the machine",
    basis="bound",
    treatments=(Treatment("nonblocking"),),
)
BUILD = Proposal(
    id="build-on-device",
    title="make tensors where they are used",
    fix=Fix("name the device at once", "noise = torch.randn(SHAPE, device=X.device)  # no .to(device)"),
    risk="random numbers come from the device's own generator",
)


@finding("device.transfer", PIN, BUILD, needs=(device_step,), device=True)
def pageable_copies(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when blocking copies hold the loop up and leave the device idle."""
    view = given(diagnosis.device)
    if view.facts.copies is None:
        return "the loop's copies to the device"
    blocking = [one for one in view.facts.copies if one.blocking]
    inside = sum(one.host_s for one in blocking)
    if of_step(diagnosis, inside) < TRIFLE:
        return None
    worst = max(blocking, key=lambda one: one.host_s)
    pageable = sum(one.bytes for one in blocking if not one.pinned)
    evidence = [
        Evidence("time per step inside blocking copies to the device", "blocking_copies_s", inside, CALLS),
        Evidence("bytes per step copied from pageable memory", "pageable_bytes", pageable, CALLS),
        _waiting(diagnosis),
    ]
    made = [one for one in blocking if one.made]
    moved = [one for one in blocking if not one.made]
    proposals = [_pin(diagnosis, moved)] if moved else []
    proposals += [_build(diagnosis, made, not moved)] if made else []
    return Finding("pageable-copies", "device.transfer", evidence, proposals, place(worst.file, worst.line))


def _build(diagnosis: Diagnosis, made: list[DeviceCopy], all_of_them: bool) -> Proposal:
    view, worst = given(diagnosis.device), max(made, key=lambda one: one.host_s)
    whole = sum(one.device_s for one in view.facts.copies or [])
    share = sum(one.device_s for one in made) / max(whole, 1e-12)
    free = all_of_them and runs_ahead(view, diagnosis.wait_s, copies=False)
    ahead = max(float(free), given(diagnosis.scenario).ahead)
    change = Change(copying=1 - min(1.0, share), ahead=ahead)
    return replace(BUILD.at(place(worst.file, worst.line)), change=change)


def _pin(diagnosis: Diagnosis, blocking: list[DeviceCopy]) -> Proposal:
    scenario, loader = given(diagnosis.scenario), diagnosis.loader
    copied_s = sum(one.device_s for one in blocking if not one.pinned)
    pinned = of_step(diagnosis, copied_s) < TRACE  # or too small for it to matter: text, rows of a table
    ahead = max(runs_ahead(given(diagnosis.device), diagnosis.wait_s, copies=False), scenario.ahead)
    changes = [Change(copying=1.0 if pinned else one, ahead=ahead) for one in PINNED]
    snippet, treatments = NO_WAIT, PIN.treatments
    if not pinned and loader is not None:
        snippet = f"{loader_call(loader, pin_memory=True)}\n{snippet}"
        treatments = (*treatments, loader_with(loader, pin_memory=True))
    pin = replace(
        PIN.at(loader.location if loader is not None else None, snippet),
        title=PIN.title if pinned else f"{PIN.title}, from pinned memory",
        treatments=treatments,
    )
    return priced(pin, scenario, *changes, most=Change(copying=0.0, ahead=ahead))


# small-dataset-on-host
GATHER_S = (5e-4, 2e-4, 1e-4)  # host time to index one batch on the device (chosen)
CAUSES = ("input.indexing", "input.preprocess", "input.collate", "input.ipc", "device.transfer")
RESIDENT = Proposal(
    id="gpu-resident-dataset",
    title="keep the whole data set on the device and index batches there",
    fix=Fix(
        "move the tensors once; no loader",
        "X, Y = X.to(DEVICE), Y.to(DEVICE)  # once\n"
        "order = torch.randperm(len(X), device=DEVICE)  # every epoch\n"
        "for rows in order.split(BATCH_SIZE):\n"
        "    TRAIN_STEP(X[rows], Y[rows])  # augment here, on whole batches",
    ),
    effort="hours",
    risk="augmentation moves to the device; batches come in another random order",
)


@finding("device.transfer", RESIDENT, needs=(device_step,), device=True)
def small_dataset_on_host(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when a data set of tensors fits the device's memory and the device waits for its batches."""
    view, beat, loader = given(diagnosis.device), beat_of(diagnosis), diagnosis.loader
    waiting = of_step(diagnosis, beat.input_s + beat.transfer_s)
    if loader is None or not loader.tensor_dataset or waiting < WAIT_SHARE:
        return None
    memory, allocator = view.facts.memory_bytes or view.driver.memory_bytes, view.facts.allocator
    payload, samples, length = payload_of(diagnosis), loader.batch_size, loader.dataset_length
    peak = allocator.peak_bytes if allocator is not None else 0
    if not (memory and peak and payload is not None and samples and length):
        return "the size of a batch, and what the peak leaves of the device's memory"
    room, size = memory - peak, length * payload.tensor_bytes / samples
    if size > MOST * room:
        return None
    evidence = [
        Evidence("share of the step in which the device waits for data", "device_wait_share", waiting, CLOCK),
        Evidence("size of the whole data set", "dataset_bytes", size, "bytes of a batch"),
        Evidence("device memory that the peak leaves", "device_room_bytes", room, ALLOCATOR),
    ]
    scenario = given(diagnosis.scenario)
    making = max(fmean([work.cpu for work in scenario.works]), 1e-12)
    spared = Change(workers=0, collate=0, storage=0, network=0, wait=0, ipc=0, startup=0, copying=0)
    changes = (replace(spared, cpu=min(1.0, one / making)) for one in GATHER_S)
    proposal = priced(RESIDENT.at(loader.location), scenario, *changes)
    return Finding("small-dataset-on-host", dearest(diagnosis, CAUSES), evidence, [proposal], loader.location)
