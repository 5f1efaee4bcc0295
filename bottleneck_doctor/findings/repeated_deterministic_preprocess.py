"""The same sample is computed again in every epoch, and comes out the same.

## What it means
Samples that came up in several epochs were equal each time: their preparation has no random part. It could
be done once, before training or in the first epoch.

## Why it costs
Each epoch pays the CPU for results that were there before. Kept in memory, a sample costs microseconds.

## How it is measured
Up to 64 indices of the data set are followed; the bytes of their samples are compared, by checksum, across
epochs. What a sample costs comes from the CPU clock of the thread that makes it.

## Thresholds
At least 8 indices seen in two epochs, 0.9 of them equal (ours: a rare random step must not be frozen
unnoticed). A sample costs at least five times what copying it out of memory would (ours). Keeping samples
gains 3 % by replay.

## When this advice is wrong
Augmentation that starts later in training is not seen before it starts. Only the first 64 KB of each array
are compared. Data sets that only index memory have nothing to keep. In memory, each worker needs to share
one copy.

## Prediction
Replay with the CPU of a sample replaced by 5 microseconds and a copy at 3 GB/s, and without its waits. Where
the samples do not fit into half of the memory they must come from storage, whose speed is not known: a range
from nothing.

## References
Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021; PyTorch Geometric,
"pre_transform".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain, is_indexing
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, Scenario, StepCost
from ..model.fetches import Repeats
from ..model.report import Evidence, Fix
from ..model.run import Machine
from .parts.advice import (
    BOOKS,
    EQUAL_SHARE,
    fits_memory,
    held_up,
    keeping,
    place_of,
    remembering,
    repeats_of,
    spread,
    wait_evidence,
)
from .parts.entry import Case, Entry, dataloader_loop, given, patient
from .parts.lines import hottest_place, line_evidence

ID = "repeated-deterministic-preprocess"
COMPARED_AT_LEAST = 8  # indices seen in more than one epoch (ours)
WORTH_KEEPING = 0.2  # a kept sample costs at most this share of what making it costs [catalogue F08]

PREPARE = Proposal(
    id="precompute-deterministic",
    title="prepare the samples once, before training",
    fix=Fix(
        "write the finished samples to a file once, and load them instead",
        'torch.save([prepare(i) for i in range(len(dataset))], "prepared.pt")     # once\n'
        'self.samples = torch.load("prepared.pt", mmap=True)                      # in __init__',
    ),
    apply="convert",
    effort="hours",
    risk="prepare them anew whenever the preparation changes",
)
ONCE = """\
class Once(torch.utils.data.Dataset):
    # built before the loader: workers share its memory
    def __init__(self, base):
        self.samples = [base[i] for i in range(len(base))]
    def __len__(self): return len(self.samples)
    def __getitem__(self, i): return self.samples[i]"""
KEEP = Proposal(
    id="cache-decoded-ram",
    title="prepare the samples once, at the start, and keep them in memory",
    fix=Fix("wrap the data set before it is given to the loader", ONCE),
    apply="hook",
    risk="the start takes as long as one epoch in one process; memory for all samples",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when samples repeat exactly, cost CPU, and it holds the loop up."""
    loader, scenario, inputs = given(diagnosis.loader), given(diagnosis.scenario), diagnosis.inputs
    if not held_up(diagnosis) or loader.dataset_kind != "map" or is_indexing(inputs, loader):
        return None
    repeats = repeats_of(diagnosis)
    if repeats is None or repeats.compared < COMPARED_AT_LEAST:
        return Abstention(ID, "the same samples seen in two epochs: let the run go on into its second one")
    keep = remembering(inputs, repeats.sample_bytes, inputs.cpu)
    equal = repeats.equal / repeats.compared
    if equal < EQUAL_SHARE or keep.cpu > WORTH_KEEPING or gain(scenario, keep) < WORTH:
        return None
    once_s = (inputs.cpu - inputs.collate) / max(inputs.samples, 1.0) * (loader.dataset_length or 0)
    evidence = [
        Evidence("share of samples seen again that came out the same", "equal_share", equal, "checksums"),
        Evidence("samples that were seen again", "compared_samples", float(repeats.compared), "checksums"),
        Evidence("CPU time to prepare every sample once", "prepare_once_s", once_s or None, BOOKS),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    known = [one for one in evidence if one.value is not None]
    proposals = _proposals(diagnosis, scenario, repeats, keep)
    return Finding(ID, "input.preprocess", known, proposals, hottest_place(diagnosis))


def _proposals(diagnosis: Diagnosis, scenario: Scenario, repeats: Repeats, keep: Change) -> list[Proposal]:
    """In memory where everything fits; else on a disk that nobody has measured."""
    place = place_of(diagnosis)
    prepare = PREPARE.at(place)
    if fits_memory(diagnosis, repeats.sample_bytes):
        in_memory = replace(KEEP.at(place), change=keep, treatments=keeping(diagnosis))
        return [in_memory, replace(prepare, change=keep)]
    halfway = replace(keep, storage=1.0, network=1.0, wait=1.0)
    return [replace(prepare, factor=spread(scenario, Change(), halfway, keep), basis="bound")]


WORK = BatchCost(0.02)


def _case(equal: int, compared: int = 64, work: BatchCost = WORK, memory: int | None = 64 << 30) -> Diagnosis:
    """Two workers, so much work a batch of 32 samples of 6 KB; the loop uses 1 ms."""
    base = patient(work, StepCost(0.0, 0.001), workers=2)
    machine = Machine("", "", "", 2, 2.0, memory_bytes=memory)
    repeats = [Repeats("1:1", 64, compared, equal, 6144.0)] if compared else []
    return replace(base, profile=replace(base.profile, repeats=repeats, machine=machine))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("every sample comes out the same", _case(64), "fires", "cache-decoded-ram"),
        Case("no memory to keep them in", _case(64, memory=None), "fires", "precompute-deterministic"),
        Case("half of the samples are flipped", _case(31), "silent"),
        Case("samples are copied out of memory", _case(64, work=BatchCost(0.0005)), "silent"),
        Case("one epoch only", _case(0, compared=0), "abstains"),
    )


FINDING = Entry(ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=(KEEP, PREPARE))
