"""Batches are ready, but moving them from the worker to the training process is expensive.

## What it means
Handing a batch over costs the loop's own thread CPU time: unpickling arrays that came through a pipe, or
receiving a file descriptor for each of many tensors.

## Why it costs
The loop pays it for every batch, one after the other, and the worker pays its side; more workers do not
help.

## How it is measured
The CPU time of the loop's thread inside the loader's `next`, the CPU time of pickling in the workers, the
bytes that go through the pipe, and what a batch is made of.

## Thresholds
Hand-over above 5 % of the step (ours), or more than 1 MB through the pipe, or more than 32 tensors in a
batch (ours); or a pool without a loader that sends in half of its time at work (ours). Moving for nothing
would gain 3 % by replay.

## When this advice is wrong
With `pin_memory=True` a thread of its own receives the batches, and the loop's share looks small. One large
tensor costs memory bandwidth, not hand-over. Wall time inside `next` is mostly waiting: only its CPU part
counts.

## Prediction
Replay with the measured CPU of moving, both sides together, cut to what is left: 0.37 ms a batch, 0.17 ms
per tensor, a copy into shared memory at 4 GB/s (measured: 10 MB as arrays 6.1 ms of the loop's CPU, as a
tensor 1.1; 100 tensors 10.9 ms). File-system sharing takes 41 microseconds per tensor instead of 109
(measured). Without workers: the replay at least, likely 0.6 of the step that it expects, at best a
quarter (measured in five trainings: 0.26 to 0.78). For a pool without a loader: from nothing to all that its
batches cost, likely half (ours).

## References
torch.multiprocessing, "Sharing strategies"; torch.utils.data, "Multi-process data loading".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.moving import RECEIVED_S, RECEIVED_TENSOR_S
from ..analyse.predict import WORTH
from ..analyse.verdict import sends
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    FeederLoad,
    Finding,
    Proposal,
    Scenario,
    StepCost,
    Transport,
)
from ..model.fetches import Payload
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import meant, payload_of, spread, wait_evidence
from .parts.computing import switches
from .parts.entry import Case, Entry, dataloader_loop, given, patient
from .parts.reserving import FEWER, without_workers

ID = "ipc-overhead"
MOVING_SHARE = 0.05  # of the step [catalogue F12]
PIPE_BYTES = 1e6  # per batch [catalogue F12]
PIPE_ROOM = 65_536  # what a pipe holds; less is no content worth another way
ENVELOPE = 150  # bytes through the pipe for a tensor that itself is in shared memory (measured: 122)
TENSORS = 32  # per batch [catalogue F12]
SHARED_S_PER_BYTE = 2.5e-10  # to copy into new shared memory (ours: half the speed measured for 10 MB)
BY_NAME = 41 / 109  # of the cost per tensor, shared by name, not by descriptor [catalogue F12, measured]

TO_TENSORS = """\
def collate(batch):                                 # arrays become tensors: they travel in shared memory
    return tuple(torch.from_numpy(np.stack(column)) for column in zip(*batch))
DataLoader(..., collate_fn=collate)"""
IN_THE_POOL = """\
from torch import multiprocessing                   # pools of this one send tensors by shared memory
def make(job): return torch.from_numpy(whole(job)[part(job)].copy())"""
RETURN_TENSORS = Proposal(
    id="return-tensors",
    title="let batches leave the workers as tensors",
    fix=Fix("turn arrays into tensors in the collate function", TO_TENSORS),
    apply="hook",
    risk="the loop gets tensors where it got arrays",
)
SEND_LESS = Proposal(
    id="return-tensors",
    title="send less: what the step needs, as tensors in shared memory",
    fix=Fix("cut, crop and convert in the pool's function, not behind it", IN_THE_POOL),
    risk="the loop gets tensors where it got arrays; each keeps a file descriptor open",
    basis="bound",
)
PACK = Proposal(
    id="pack-tensors",
    title="send one packed tensor instead of many",
    fix=Fix(
        "pack in the collate function, split in the loop",
        "def collate(batch): return torch.cat(batch), [len(part) for part in batch]\n"
        "parts = packed.split(lengths)                       # in the loop: views, nothing is copied",
    ),
    risk="tensors of one type and width pack easily; a dictionary needs one pack per key",
)
SHARE_BY_NAME = Proposal(
    id="sharing-file-system",
    title="share tensors by name instead of by file descriptor",
    fix=Fix(
        "choose torch's other way of sharing",
        'torch.multiprocessing.set_sharing_strategy("file_system")     # at the top of the script',
    ),
    apply="hook",
    risk="a crash leaves shared memory behind, under /dev/shm/torch_*",
    treatments=(Treatment("sharing", {"strategy": "file_system"}),),
)


def timed_fetches_or_pool(diagnosis: Diagnosis) -> str | None:
    """Timed fetches, where no pool of the script's own is known to send batches."""
    return None if _sends(diagnosis) else dataloader_loop(diagnosis)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when moving a batch costs much and something in the batch can make it cheaper."""
    scenario = given(diagnosis.scenario)
    if _sends(diagnosis):
        return _pooled(diagnosis, scenario)
    loader = given(diagnosis.loader)
    if not loader.num_workers or gain(scenario, Change(ipc=0.0)) < WORTH:
        return None
    payload = payload_of(diagnosis)
    if payload is None:
        return Abstention(ID, "what a batch is made of: none was looked into")
    share = scenario.transport.hand_over / diagnosis.step_s
    if share <= MOVING_SHARE and payload.pipe_bytes <= PIPE_BYTES and payload.tensors <= TENSORS:
        return None
    proposals = _proposals(diagnosis, scenario, payload, loader)
    proposals += without_workers(diagnosis, "moving these batches takes longer than making them")
    if not proposals:
        return None
    evidence = [
        Evidence(
            "share of the step in which the loop receives batches", "hand_over_share", share, "thread CPU"
        ),
        Evidence("tensors in a batch", "batch_tensors", payload.tensors, "batches looked into"),
        Evidence(
            "bytes of a batch that go through a pipe", "pipe_bytes", payload.pipe_bytes, "pickling hook"
        ),
        Evidence(
            "CPU time for a worker to pickle a batch", "send_cpu_s", payload.serialise_cpu_s, "thread CPU"
        ),
        *wait_evidence(diagnosis)[:1],
    ]
    return Finding(ID, "input.ipc", evidence, proposals, loader.location)


def _sends(diagnosis: Diagnosis) -> bool:
    """Whether a pool that feeds a loop without a loader spends its time on sending."""
    scenario = diagnosis.scenario
    return diagnosis.loader is None and scenario is not None and sends(scenario)


def _pooled(diagnosis: Diagnosis, scenario: Scenario) -> Finding:
    """A pool of the script's own pickles what it made and sends it through a pipe."""
    factor = spread(scenario, Change(), Change(cpu=0.5, wait=0.5), Change(cpu=0.0, wait=0.0))
    proposal = replace(SEND_LESS.at(diagnosis.source), factor=factor)
    text = "share of the pool's time at work in which it sends"
    share = Evidence(text, "sending_share", scenario.feeders.sending, "stack samples")
    return Finding(ID, "input.ipc", [share, *wait_evidence(diagnosis)[:1]], [proposal], diagnosis.source)


def _proposals(diagnosis: Diagnosis, scenario: Scenario, payload: Payload, loader: Loader) -> list[Proposal]:
    """What the batch's content allows, by the time left of moving it in the loop and in the worker."""
    now_s = max(scenario.transport.hand_over + scenario.transport.serialise, 1e-12)
    each_s = max(0.0, scenario.transport.hand_over - RECEIVED_S) / max(payload.tensors, 1.0)
    ways: list[tuple[Proposal, float]] = []
    if payload.pipe_bytes - ENVELOPE * payload.tensors > PIPE_ROOM:
        as_arrays = Treatment("arrays", {"where": meant(loader)})
        left_s = (
            RECEIVED_S + RECEIVED_TENSOR_S * (payload.tensors + 1) + payload.pipe_bytes * SHARED_S_PER_BYTE
        )
        ways.append((replace(RETURN_TENSORS, treatments=(as_arrays,)), left_s / now_s))
    elif payload.tensors > 2:
        left_s = RECEIVED_S + max(each_s, RECEIVED_TENSOR_S) + payload.tensor_bytes * SHARED_S_PER_BYTE
        ways.append((PACK, left_s / now_s))
    known = switches(diagnosis)
    if payload.tensors > TENSORS and (known is None or known.sharing != "file_system"):
        ways.append((SHARE_BY_NAME, 1 - (1 - BY_NAME) * each_s * payload.tensors / now_s))
    return [
        replace(remedy.at(loader.location), change=Change(ipc=min(1.0, max(0.0, left))))
        for remedy, left in ways
    ]


WORK, COST = BatchCost(0.002), StepCost(0.003)
ARRAYS = Payload("1:1", 10, 0.0, 0.0, 1e7, 1e7, 0.01)
MANY = Payload("1:1", 10, 200.0, 3e5, 0.0, 14e3, 0.01)
EVENTS = Payload("1:1", 10, 1000.0, 6e4, 0.0, 122e3, 0.06)
SMALL = Payload("1:1", 10, 2.0, 2e3, 0.0, 400.0, 0.0003)


def _case(payload: Payload, hand_over: float, cost: StepCost = COST) -> Diagnosis:
    """Two workers; the loop needs 3 ms for a batch, and what it takes to receive it."""
    scene = Scenario((WORK,), (cost,), workers=2, cores=2.0)
    scene = replace(scene, transport=Transport(hand_over, payload.serialise_cpu_s))
    base = patient(WORK, cost, workers=2, scenario=scene)
    return replace(base, profile=replace(base.profile, payloads=[payload]))


def _sending(share: float) -> Diagnosis:
    """A pool that feeds a loop without a loader."""
    scene = Scenario(
        (BatchCost(0.001, wait=0.004),), (COST,), cores=2.0, feeders=FeederLoad(1, sending=share)
    )
    return replace(patient(BatchCost(0.005), COST, scenario=scene), loader=None)


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("10 MB of arrays through a pipe", _case(ARRAYS, 0.006), "fires", "return-tensors"),
        Case("200 small tensors", _case(MANY, 0.022), "fires", "pack-tensors"),
        Case("200 small tensors, collated as before", _case(MANY, 0.022), "fires", "sharing-file-system"),
        Case("1,000 tensors, faster made than moved", _case(EVENTS, 0.06), "fires", "workers-auto"),
        Case("1,000 tensors, packed", _case(EVENTS, 0.06), "fires", "pack-tensors"),
        Case("two tensors", _case(SMALL, 0.0004), "silent"),
        Case("many tensors, but a long step hides them", _case(MANY, 0.022, StepCost(0.0, 3.0)), "silent"),
        Case("a pool that mostly sends", _sending(0.8), "fires", "return-tensors"),
        Case("a pool that mostly computes", _sending(0.2), "abstains"),
        Case("no batch was looked into", _case(replace(ARRAYS, batches=0), 0.006), "abstains"),
    )


FINDING = Entry(
    ID,
    "input.ipc",
    examine,
    needs=(timed_fetches_or_pool,),
    remedies=(RETURN_TENSORS, SEND_LESS, PACK, SHARE_BY_NAME, FEWER),
)
