"""The loop waits for the device in every step, and the device then waits for the loop.

## What it means
Kernels are queued: the loop can prepare the next step while the device still works on this one. Reading a
value back (`.item()`, `.cpu()`, `print` of a tensor, `if` on a tensor, `nonzero`, a boolean mask) empties
the queue. Until the loop has issued the next kernel, the device has nothing to do.

## Why it costs
What the loop does between the wait and the next kernel is no longer hidden behind the device's work:
logging, fetching the next batch, Python itself.

## How it is measured
The device's clock: idleness that begins at the end of such a call and ends with the next kernel. The time
inside the call is not counted: it is mostly the device finishing work that had to be done anyway, and comes
back nowhere when the call is removed. Not yet proven on hardware.

## Thresholds
3 % of the step idle after such calls [catalogue F32].

## When this advice is wrong
A loop that takes longer to issue a step than the device to compute it gains little: it has no lead to lose
(launch-bound). A gradient scaler for float16 reads one flag per step, and needs to: such calls are left out.
Other calls that wait (copies from pageable memory, an allocator out of room) must go as well, or the queue
still runs dry; the prediction knows of them.

## Prediction
By replay: the loop does the same work, but runs ahead of the device. The step becomes the longer of what the
host needs and what the device needs.

## References
PyTorch Performance Tuning Guide, "Avoid unnecessary CPU-GPU synchronization";
torch.cuda.set_sync_debug_mode.
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.step_costs import runs_ahead
from ..model.derived import DeviceStepBreakdown
from ..model.device import DeviceCopy, DeviceFacts, DeviceSync
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.computing import CALLS, CLOCK, beat_of, of_step, place
from .parts.entry import SATURATED, SYNCING, Case, Entry, accelerated, device_step, given

ID = "sync-points"
IDLE_SHARE = 0.03  # of the step idle after waits for the device [catalogue F32]
INHERENT = ("grad_scaler.py",)  # files of torch whose one readback per step the algorithm needs

DEFER = Proposal(
    id="defer-readback",
    title="keep values on the device and read them back rarely",
    fix=Fix(
        "accumulate on the device; read every n steps",
        "running += loss.detach()                     # stays on the device\n"
        "if step % 50 == 0:                           # one wait in fifty steps\n"
        "    print(running.item() / 50); running.zero_()",
    ),
    effort="hours",
    risk="progress bars and early stopping see values later",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the device idles after the loop had waited for it."""
    view = given(diagnosis.device)
    if of_step(diagnosis, beat_of(diagnosis).sync_s) < IDLE_SHARE:
        return None
    if view.facts.syncs is None:
        return Abstention(ID, "the calls that wait for the device, by line")
    mine = [one for one in view.facts.syncs if not one.file.endswith(INHERENT)]
    idle = sum(one.idle_s for one in mine)
    if of_step(diagnosis, idle) < IDLE_SHARE:
        return None
    mine.sort(key=lambda one: -one.idle_s)
    evidence = [
        Evidence("share of the step in which the device idles after such calls", "device_sync_share",
                 of_step(diagnosis, idle), CLOCK),
        Evidence("such calls per step", "syncs", sum(one.count for one in mine), CALLS),
        Evidence("time inside them, mostly not removable", "sync_inside_s", sum(one.inside_s for one in mine),
                 CALLS),
        *(Evidence(f"idle after `{one.call}` at {one.file}:{one.line}", "device_sync_s", one.idle_s, CLOCK)
          for one in mine[:3] if one.file),
    ]  # fmt: skip
    where = place(mine[0].file, mine[0].line)
    proposal = replace(DEFER.at(where), change=_change(diagnosis, mine, idle))
    return Finding(ID, "host.sync", evidence, [proposal], where)


def _change(diagnosis: Diagnosis, mine: list[DeviceSync], idle: float) -> Change:
    """With all waits gone the loop runs ahead; while others wait, only our part of the idleness goes. What
    the loop did while the device idled remains its work: no step gets shorter than that."""
    view, beat = given(diagnosis.device), beat_of(diagnosis)
    others = len(mine) < len(view.facts.syncs or [])
    if others or not runs_ahead(view, diagnosis.wait_s, syncs=False):
        own_work = min(1.0, (beat.host_s - beat.busy_s) / beat.sync_s)
        return Change(lead_in=max(0.0, 1 - idle / beat.sync_s, own_work))
    return Change(ahead=1.0)


def _facts(
    idle_s: float = 0.006, file: str = "train.py", copies: list[DeviceCopy] | None = None
) -> DeviceFacts:
    return DeviceFacts(syncs=[DeviceSync("item", 2.0, 0.011, idle_s, file, 40)], copies=copies)


SCALER = "torch/amp/grad_scaler.py"
ENDING = DeviceStepBreakdown(400, 0.02, 0.0195, sync_s=0.0003, host_s=0.008)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains; all simulated."""
    return (
        Case("the loss is printed every step", accelerated(SYNCING, _facts()), "fires", "defer-readback"),
        Case("long waits that end just in time", accelerated(ENDING, _facts(0.0003)), "silent"),
        Case("the gradient scaler's own flag", accelerated(SYNCING, _facts(file=SCALER)), "silent"),
        Case("nothing is read back", accelerated(SATURATED, DeviceFacts(syncs=[])), "silent"),
        Case("idle, and no calls were watched", accelerated(SYNCING), "abstains"),
        Case("only the driver was asked", accelerated(None), "abstains"),
    )


FINDING = Entry(ID, "host.sync", examine, device=True, needs=(device_step,), remedies=(DEFER,))
