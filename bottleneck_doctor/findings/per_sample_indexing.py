"""Rows that lie in memory are picked one by one in Python and stacked again.

## What it means
The data set does nothing but index arrays, yet the loader asks it for one row at a time: a Python call and a
small tensor per row, and a stack of them per batch.

## Why it costs
A row costs about 4.5 microseconds of Python however small it is; one gather of the whole batch costs a tenth
of that. Workers make it worse: they do the same, and copy the result through shared memory.

## How it is measured
CPU time of a fetch over its samples, without reads, decoders or opened files; whether the data set offers
`__getitems__`; the bytes of a batch.

## Thresholds
Less than 20 microseconds of CPU per sample and batches of at least 64 (measured: plain indexing takes 4 to
5). Data wait above 5 % of the step (the profiler's TensorBoard plugin), or a
verdict that names the making. The gather must gain 3 % by replay.

## When this advice is wrong
A collate function of one's own that does more than stack is collate-bound. A transform applied per row must
be made to take whole batches first. `__getitems__` that returns a list of rows gains little: it must return
the batch.

## Prediction
Replay with the CPU of a fetch, its collate included, at the cost of one gather. Measured per row, one by one
against gathered: 16 floats 4.48 and 0.32 microseconds, 128 floats 4.62 and 0.60, 1024 floats 4.45 and 1.38;
with a batch sampler 0.49, 0.77 and 1.53. Without workers or with them, whichever the replay likes better.

## References
PyTorch issue 106704, "DataLoader is slow for TensorDataset"; torch.utils.data, "Disable automatic batching".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain, is_indexing
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.fetches import Payload
from ..model.loops import Loader
from ..model.report import Evidence, Fix
from ..model.run import Treatment
from .parts.advice import BOOKS, held_up, loader_with, meant, payload_of, wait_evidence
from .parts.entry import PLACE, Case, Entry, dataloader_loop, given, inputs_of, patient
from .parts.lines import asks_or_parses
from .parts.rewriting import Code, loader_call

ID = "per-sample-indexing"
ROW_S = 4.5e-6  # CPU per row, one by one, stacking included [catalogue F09, measured]
GATHER_S = 3.0e-7  # and in one gather, with [catalogue F09, measured: the line through three sizes]
GATHER_S_PER_BYTE = 2.64e-10  # for each byte of the row
SAMPLER_S = (
    1.6e-7  # more per row where a batch sampler hands over a list of indices [catalogue F09, measured]
)
STACKED = 0.5  # tensors in a batch over its samples: from here on the samples are kept apart (ours)
OWN_SHARE = 0.5  # of a fetch's CPU in a collate function of one's own: then that is the ailment (ours)

FAST_TENSORS = """\
class FastTensors(torch.utils.data.TensorDataset):
    def __getitems__(self, indices):
        rows = torch.as_tensor(indices)
        return tuple(tensor[rows] for tensor in self.tensors)
"""
METHOD = """\
def __getitems__(self, indices):                 # in the data set: one gather per array
    rows = torch.as_tensor(indices)
    return self.x[rows], self.y[rows]
"""
SAMPLER = """\
sampler = BatchSampler(RandomSampler(dataset), batch_size={}, drop_last=False)     # torch.utils.data
DataLoader(dataset, sampler=sampler, batch_size=None, num_workers={})"""
GATHER = Proposal(
    id="batched-getitems",
    title="take all rows of a batch in one gather",
    fix=Fix(
        "let the data set return whole batches", METHOD + "DataLoader(..., collate_fn=lambda batch: batch)"
    ),
    apply="hook",
    risk="transforms must take batches; the values stay the same",
)
INDEX = Proposal(
    id="batch-sampler-index",
    title="let a batch sampler index the data set with whole batches",
    fix=Fix("hand lists of indices to the data set", SAMPLER.format(1024, 0)),
    apply="hook",
    risk="the data set must accept a list of indices, as tensors and arrays do",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when fetching is nothing but picking rows, and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    own = loader.collate != "default_collate" and inputs.collate > OWN_SHARE * inputs.cpu
    if own or not held_up(diagnosis) or not is_indexing(inputs, loader) or asks_or_parses(diagnosis):
        return None
    payload = payload_of(diagnosis)
    if payload is None:
        return Abstention(ID, "the size of a sample: no batch was looked into")
    row_bytes = (payload.tensor_bytes + payload.other_bytes) / inputs.samples
    gathered, sampled = (_change(diagnosis, scenario, row_bytes, extra) for extra in (0.0, SAMPLER_S))
    if payload.tensors >= STACKED * inputs.samples or gain(scenario, gathered) < WORTH:
        return None
    row_s = inputs.cpu / inputs.samples
    evidence = [
        Evidence("CPU time per sample, stacking included", "sample_cpu_s", row_s, BOOKS),
        Evidence("bytes of a sample", "sample_bytes", row_bytes, "batches looked into"),
        Evidence("samples in a batch", "batch_samples", inputs.samples, "hooks on fetch"),
        *wait_evidence(diagnosis),
    ]
    proposals = [
        _applied(GATHER.at(loader.location, _gather(loader, gathered)), loader, gathered, "getitems"),
        _applied(INDEX.at(loader.location, _sampler(loader, sampled)), loader, sampled, "sampler"),
    ]
    return Finding(ID, "input.indexing", evidence, proposals, loader.location)


def _change(diagnosis: Diagnosis, scenario: Scenario, row_bytes: float, extra_s: float) -> Change:
    """A fetch at the price of one gather, in workers or in the loop's own process, whichever is faster.

    A row of a tensor data set costs what was measured, times this machine's slowness; other rows cost more.
    """
    row_s = (
        ROW_S
        if given(diagnosis.loader).tensor_dataset
        else max(ROW_S, diagnosis.inputs.cpu / diagnosis.inputs.samples)
    )
    left = min(1.0, (GATHER_S + extra_s + row_bytes * GATHER_S_PER_BYTE) / row_s)
    there = Change(cpu=left, collate=left)
    here = replace(there, workers=0, startup=0.0)
    return here if scenario.workers and gain(scenario, here) > gain(scenario, there) else there


def _gather(loader: Loader, change: Change) -> str:
    changed: dict[str, object] = {"collate_fn": Code("lambda batch: batch")}
    if loader.tensor_dataset:
        changed["dataset"] = Code("FastTensors(X, y)")
    if change.workers == 0:
        changed["num_workers"] = 0
    return (FAST_TENSORS if loader.tensor_dataset else METHOD) + loader_call(loader, **changed)


def _sampler(loader: Loader, change: Change) -> str:
    return SAMPLER.format(loader.batch_size, loader.num_workers if change.workers is None else change.workers)


def _applied(remedy: Proposal, loader: Loader, change: Change, how: str) -> Proposal:
    """Torch's own data set can be made to gather; what another one holds, nobody knows but its author."""
    if not loader.tensor_dataset:
        return replace(remedy, change=change, apply="manual")
    treatments = [Treatment("batched", {"where": meant(loader), "how": how})]
    if change.workers == 0:
        treatments.append(loader_with(loader, num_workers=0))
    return replace(remedy, change=change, treatments=tuple(treatments))


CALL = {"batch_size": "1024", "shuffle": "True"}
ROWS = Loader("1:1", "dataloader", 1, "TensorDataset", tensor_dataset=True, collate="default_collate")
TABLE = replace(ROWS, batch_size=1024, dataset_length=100_000, arguments=CALL, location=PLACE)
WORK, COST = BatchCost(0.0026, collate=0.002), StepCost(0.001)


def _case(
    work: BatchCost = WORK, loader: Loader = TABLE, workers: int = 0, tensors: float = 2.0
) -> Diagnosis:
    """Batches of 1024 rows of 16 floats: 4.6 ms to pick and stack, 1 ms to use."""
    inputs = inputs_of(work, workers, 0.006, samples=1024.0)
    base = patient(work, COST, workers=workers, inputs=inputs, loader=loader)
    payloads = [Payload("1:1", 8, tensors, 1024 * 64.0)] if tensors else []
    return replace(base, profile=replace(base.profile, payloads=payloads))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("a tensor data set read row by row", _case(), "fires", "batched-getitems"),
        Case("the same in two workers", _case(workers=2), "fires", "batch-sampler-index"),
        Case("rows are also transformed", _case(BatchCost(0.05, collate=0.002)), "silent"),
        Case("a whole batch at once already", _case(loader=replace(TABLE, batched_getitems=True)), "silent"),
        Case(
            "a collate function pads", _case(BatchCost(0.001, 0.01), replace(TABLE, collate="pad")), "silent"
        ),
        Case("samples are kept apart", _case(tensors=1024.0), "silent"),
        Case("no batch was looked into", _case(tensors=0.0), "abstains"),
    )


FINDING = Entry(ID, "input.indexing", examine, needs=(dataloader_loop,), remedies=(GATHER, INDEX))
