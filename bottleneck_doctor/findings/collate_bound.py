"""Putting samples together into batches takes much of the CPU time that batches cost.

## What it means
The collate function pads, converts or stacks for a large part of a fetch.

## Why it costs
It runs once per batch, in Python, in the same process as the fetch: what it takes is added to every batch.
Padding Python lists element by element costs several times what one call on whole tensors does.

## How it is measured
A hook around the loader's collate function reads the thread's CPU clock. The least that any collate costs,
one copy of the batch, follows from the bytes of a batch.

## Thresholds
Collate is more than a quarter of a fetch's CPU (ours), and removing it would gain 3 % by replay.

## When this advice is wrong
In a worker, torch's own collate writes into shared memory, and its time includes the first touch of those
pages: that is the copy which the batch needs anyway. With torch's own collate only less data per sample, or
whole batches from the data set, make it cheaper. Rows picked from memory one by one are per-sample-indexing.

## Prediction
A range by replay: from two fifths of a collate function of the user's (of torch's own from nothing); over
what padding by whole tensors brought (measured: 5.73 to 1.51 ms for 128 sequences), or half the bytes for
torch's own collate; to a single copy of the batch at 3 GB/s.

## References
torch.nn.utils.rnn.pad_sequence; torch.utils.data, "Working with collate_fn".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain, is_indexing
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import Payload
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from .parts.advice import BOOKS, COPY_S_PER_BYTE, held_up, payload_of, spread, wait_evidence
from .parts.entry import PLACE, Case, Entry, dataloader_loop, given, inputs_of, patient
from .parts.lines import line_evidence

ID = "collate-bound"
COLLATE_SHARE = 0.25  # of a fetch's CPU [catalogue F11]
VECTORISED = 1.51 / 5.73  # pad_sequence over padding Python lists [catalogue F11, measured]
CAUTIOUS = 0.6  # of a function of the user's is left at worst (ours: 0 to 0.56 in three trainings)
HALF, QUARTER = 0.5, 0.25  # of the bytes: half precision, and one byte instead of float32
TORCHS = ("default_collate", "default_convert")
TOUCH = "in a worker this includes the first touch of shared pages, which the batch needs anyway"

PADDING = """\
def collate(batch):
    sequences, labels = zip(*batch)
    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True), torch.tensor(labels)"""
BYTES = """\
return torch.from_numpy(image), label       # uint8 from __getitem__: a quarter of float32
x = x.to(device).float().div_(255)          # in the loop, on the whole batch"""
VECTORISE = Proposal(
    id="collate-vectorise",
    title="put samples together with calls on whole tensors",
    fix=Fix("replace the loops in the collate function", PADDING),
    effort="hours",
    risk="check that padding values and types stay the same",
    basis="bound",
)
SMALLER = Proposal(
    id="half-inputs",
    title="collate smaller samples: bytes or half precision instead of float32",
    fix=Fix("return the smallest type that holds the data; convert the batch", BYTES),
    effort="hours",
    risk="the conversion moves into the loop; half precision rounds; bytes cannot shrink further",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when collating is a large part of a batch's CPU and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    if not held_up(diagnosis):
        return None
    torchs = loader.collate in TORCHS
    if inputs.collate <= COLLATE_SHARE * inputs.cpu or (torchs and is_indexing(inputs, loader)):
        return None
    least = QUARTER if torchs else _copy_share(diagnosis)
    if gain(scenario, Change(collate=least)) < WORTH:
        return None
    share = inputs.collate / inputs.cpu
    evidence = [
        Evidence("share of a batch's CPU that collating takes", "collate_share", share, BOOKS),
        Evidence("CPU time to collate a batch", "collate_cpu_s", inputs.collate, "hook on collate_fn"),
        Evidence("share of it that one copy would cost", "copy_share", _copy_share(diagnosis), "batch bytes"),
        *([Evidence(TOUCH)] if torchs and scenario.workers else []),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    if torchs:
        sizes = Change(), Change(collate=HALF), Change(collate=QUARTER)
        remedy = SMALLER.at(loader.location)
    else:
        sizes = Change(collate=CAUTIOUS), Change(collate=max(least, VECTORISED)), Change(collate=least)
        loops = f"replace the loops in {loader.collate or 'the collate function'}"
        remedy = VECTORISE.at(loader.location, text=loops)
    proposal = replace(remedy, factor=spread(scenario, *sizes))
    return Finding(ID, "input.collate", evidence, [proposal], loader.location)


def _copy_share(diagnosis: Diagnosis) -> float:
    """The least that a collate can cost, as a share of what it does; 0 where no batch was looked into."""
    payload = payload_of(diagnosis)
    whole = payload.tensor_bytes + payload.other_bytes if payload is not None else 0.0
    return min(1.0, whole * COPY_S_PER_BYTE / max(diagnosis.inputs.collate, 1e-12))


OWN = Loader("1:1", "dataloader", 1, "Sentences", batch_size=128, collate="pad_lists", location=PLACE)
PICTURES = replace(OWN, dataset="Pictures", collate="default_collate")
WORK, COST = BatchCost(0.002, collate=0.01), StepCost(0.0, 0.001)
SIZE = 4e5


def _case(
    work: BatchCost = WORK, loader: Loader = OWN, cost: StepCost = COST, size: float = SIZE
) -> Diagnosis:
    """Two workers; padding 128 sentences takes 10 ms, the loop 1 ms."""
    inputs = inputs_of(work, 2, 0.006, samples=128.0)
    base = patient(work, cost, workers=2, inputs=inputs, loader=loader)
    return replace(base, profile=replace(base.profile, payloads=[Payload("1:1", 8, 2.0, size)]))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("sentences are padded as lists", _case(), "fires", "collate-vectorise"),
        Case(
            "large samples are stacked by torch",
            _case(BatchCost(0.008, 0.01), PICTURES),
            "fires",
            "half-inputs",
        ),
        Case("collating is a tenth of the work", _case(BatchCost(0.01, 0.001)), "silent"),
        Case("one copy is all that it does", _case(size=3e7), "silent"),
        Case("rows of memory are stacked", _case(BatchCost(0.001, 0.001), PICTURES), "silent"),
        Case("the loop has other things to do", _case(cost=StepCost(0.0, 0.05)), "silent"),
        Case("no fetch was timed", replace(_case(), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.collate", examine, needs=(dataloader_loop,), remedies=(VECTORISE, SMALLER))
