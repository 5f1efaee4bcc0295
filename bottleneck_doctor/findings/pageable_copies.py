"""Batches are copied to the device from pageable memory, and the training loop stands still meanwhile.

## What it means
The device reads host memory by itself only where pages cannot move. A tensor in ordinary memory is first
copied into a page-locked staging buffer by the driver, on the loop's own thread, and the call waits for
earlier work of its stream. Pinned memory alone does not free the loop: without `non_blocking=True` the call
still waits.

## Why it costs
Each byte is copied twice, and the loop cannot issue the next kernels until it is done: the device runs dry,
copies, and only then computes.

## How it is measured
The copies' own calls say whether their source was pinned, whether they blocked and for how long; the
device's clock says how long its compute stream waited for copies. Not yet proven on hardware.

## Thresholds
The calls take 3 % of the step (ours). What they could spare is for the prediction to say.

## When this advice is wrong
Time inside a blocking copy is partly the device finishing earlier work: it is not promised back. Pinning a
tensor just before copying it is slower than copying it as it is: pin in the loader, once. Page-locked memory
is taken from everybody else on the machine. The reverse direction is never safe with `non_blocking=True`
unless somebody waits before the values are read.

## Prediction
By replay: the loop leaves these copies queued and goes on, unless other calls wait as well; the copy itself
takes between as long as now and half of that (ours: how much faster pinned copies are depends on machine and
size). A line that makes what it copies may make it on the device, and needs no copy.

## References
PyTorch tutorial, "A guide on good usage of non_blocking and pin_memory()"; CUDA Runtime API, "API
synchronization behavior"; NVIDIA, "How to Optimize Data Transfers in CUDA C/C++".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.step_costs import runs_ahead
from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceCopy, DeviceFacts, DeviceSync
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import loader_call, loader_with, spread
from .parts.computing import CALLS, CLOCK, beat_of, of_step, place
from .parts.entry import COPYING, SATURATED, Case, Entry, accelerated, device_step, given

ID = "pageable-copies"
INSIDE_SHARE = 0.03  # of the step inside blocking copies (ours)
PINNED = (1.0, 0.75, 0.5)  # of a copy's time from pageable memory (ours)

NO_WAIT = "x = x.to(device, non_blocking=True)"
PIN = Proposal(
    id="pin-and-nonblocking",
    title="let copies to the device go on beside the loop",
    fix=Fix(
        "pin batches in the loader and do not wait for the copy",
        f"DataLoader(..., pin_memory=True)\n{NO_WAIT}",
    ),
    apply="hook",
    risk="page-locked memory is taken from the rest of the machine",
    basis="bound",
    treatments=(Treatment("nonblocking"),),
)
BUILD = Proposal(
    id="build-on-device",
    title="make tensors where they are used",
    fix=Fix(
        "name the device where the tensor is made",
        "noise = torch.randn(shape, device=x.device)     # not torch.randn(shape).to(device)",
    ),
    risk="random numbers come from the device's own generator",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when blocking copies hold the loop up and leave the device idle."""
    view = given(diagnosis.device)
    if view.facts.copies is None:
        return Abstention(ID, "the loop's copies to the device")
    blocking = [one for one in view.facts.copies if one.blocking]
    inside = sum(one.host_s for one in blocking)
    if of_step(diagnosis, inside) < INSIDE_SHARE:
        return None
    worst = max(blocking, key=lambda one: one.host_s)
    pageable = sum(one.bytes for one in blocking if not one.pinned)
    beat = beat_of(diagnosis)
    evidence = [
        Evidence("time per step inside blocking copies to the device", "blocking_copies_s", inside, CALLS),
        Evidence("bytes per step copied from pageable memory", "pageable_bytes", pageable, CALLS),
        Evidence("share of the step in which kernels wait for copies", "device_transfer_share",
                 of_step(diagnosis, beat.transfer_s), CLOCK),
    ]  # fmt: skip
    made = [one for one in blocking if one.made]
    moved = [one for one in blocking if not one.made]
    proposals = [_pin(diagnosis, moved)] if moved else []
    proposals += [_build(diagnosis, made, not moved)] if made else []
    return Finding(ID, "device.transfer", evidence, proposals, place(worst.file, worst.line))


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
    pinned = all(one.pinned for one in blocking)
    ahead = max(runs_ahead(given(diagnosis.device), diagnosis.wait_s, copies=False), scenario.ahead)
    changes = [Change(copying=1.0 if pinned else one, ahead=ahead) for one in PINNED]
    snippet, treatments = NO_WAIT, PIN.treatments
    if not pinned and loader is not None:
        snippet = f"{loader_call(loader, pin_memory=True)}\n{snippet}"
        treatments = (*treatments, loader_with(loader, pin_memory=True))
    return replace(
        PIN.at(loader.location if loader is not None else None, snippet),
        title=PIN.title if pinned else f"{PIN.title}, from pinned memory",
        factor=spread(scenario, *changes),
        most=gain(scenario, Change(copying=0.0, ahead=ahead)),
        treatments=treatments,
    )


def _copy(pinned: bool = False, blocking: bool = True, host_s: float = 0.009) -> list[DeviceCopy]:
    return [DeviceCopy(4e7, 2.0, host_s, 0.006, pinned, blocking, "float32", "train.py", 31)]


MADE = [DeviceCopy(4e7, 2.0, 0.009, 0.006, False, True, "float32", "train.py", 31, made=True)]
EMPTIED = DeviceStepBreakdown(
    400, 0.02, 0.011, sync_s=0.005, transfer_s=0.004, host_s=0.009
)  # idle after each copy
READS = [DeviceSync("item", 1.0, 0.01, 0.0, "train.py", 40)]
PLAIN = Loader("1:1", "dataloader", 1, "Photos", batch_size=32, dataset_length=50_000)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    paged, quiet, few = _copy(), _copy(True, False), _copy(host_s=1e-4)
    return (
        Case("40 MB a step from pageable memory", accelerated(COPYING, DeviceFacts(copies=paged)), "fires",
             "pin-and-nonblocking"),
        Case("the queue is empty after each",
             accelerated(EMPTIED, DeviceFacts(copies=paged, syncs=[])), "fires",
             "pin-and-nonblocking"),
        Case("the same, and the loss is read every step",
             accelerated(COPYING, DeviceFacts(copies=paged, syncs=READS), loader=PLAIN), "fires",
             "pin-and-nonblocking"),
        Case("noise is made on the host, and copied", accelerated(COPYING, DeviceFacts(copies=MADE)),
             "fires", "build-on-device"),
        Case("no copy blocks", accelerated(COPYING, DeviceFacts(copies=quiet)), "silent"),
        Case("a few labels", accelerated(SATURATED, DeviceFacts(copies=few)), "silent"),
        Case("copies were not watched", accelerated(COPYING), "abstains"),
        Case("only the driver was asked", accelerated(None), "abstains"),
    )  # fmt: skip


FINDING = Entry(ID, "device.transfer", examine, device=True, needs=(device_step,), remedies=(PIN, BUILD))
