"""Every sample is a small file of its own: finding and opening files costs more than their bytes.

## What it means
For each sample a file is looked up, opened, read and closed. Cold, the disk seeks for the file's entry and
again for its data; warm, the kernel's bookkeeping is most of what a sample costs.

## Why it costs
The cost is one per file, not one per byte. Neighbours in one large file come with the same read.

## How it is measured
Opens per sample (Python's own `open` events inside fetches), bytes read per open, the time asleep in
storage, and the kernel's part of the fetch's CPU.

## Thresholds
At least 0.9 opens per sample and less than 128 KiB per open (ours). Sleep in storage and the kernel's CPU,
which are what a file costs whatever is in it, are at least 40 % of what a batch costs its maker, and the
loop waits for more than 5 % of the step. Silent if no more than four files are opened again and again: that
is another ailment.

## When this advice is wrong
Libraries that open files in C are not seen. Read in random order, packed files are no faster than single
ones on a solid-state disk (measured: 33 and 32 us asleep per sample): shards must be read from front to
back and shuffled in a buffer. Kernel CPU may come from fresh memory instead of files.

## Prediction
A range, replayed: no sleep spared (random order) to a tenth left (whole batches with one read), likely 0.4
(measured 0.32 and 0.44 in order); and 0.6 to 0.1 of the kernel's CPU, and at best as much again of
Python's.

## References
WebDataset and MosaicML Streaming, on shards; torch.utils.data on iterable data sets; path_resolution(7).
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.reads import LARGE_READ_BYTES, OPENS_PER_SAMPLE, streams_of
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import HotFiles
from ..model.report import Evidence, Fix
from .parts.advice import (
    PAYS,
    dearest,
    hot_files_of,
    judge_reads,
    making_s,
    more_workers,
    place_of,
    read_evidence,
    spread,
    wait_evidence,
    waits,
)
from .parts.entry import Case, Entry, given, inputs_of, patient, timed_fetches
from .parts.remedies import WORKERS

ID = "small-files"
FILE_SHARE = 0.4  # of what a batch costs, asleep in storage or in the kernel [catalogue F22, P2.2]
SAME_FILES = 4  # opened over and over: a container opened per sample, not many small files (ours)
SIDE_FILES = 1.8  # opens per sample from which a second file comes with each (ours)
ASLEEP_PACKED = (1.0, 0.4, 0.1)  # of the sleep per sample: read at random, in order [measured], whole batches
CPU_PACKED = (0.6, 0.3, 0.1)  # of the kernel's CPU per sample [measured: 0.5 and 0.57 warm, 0.14 cold]
ALIKE = (1, 1, 2)  # CPU spared for each second of the kernel's: at best, Python's own goes too (ours)

SHARDS = """\
with tarfile.open("shard-000.tar", "w") as shard:         # some 100 MB each, samples already shuffled
    for k, path in enumerate(paths): shard.add(path, f"{k:08d}{path.suffix}")"""
PACK = Proposal(
    id="pack-shards",
    title="pack the samples into large files and read those from front to back",
    fix=Fix("write shards once (WebDataset, MDS, LMDB, TFRecord)", SHARDS),
    apply="convert",
    effort="hours",
    risk="order: shuffle shards and a buffer; each worker needs shards of its own",
    basis="bound",
)
REMEMBER = Proposal(
    id="cache-metadata",
    title="read labels and file lists once only",
    fix=Fix(
        "keep what the side files hold in memory",
        "self.labels = {path: read_label(path) for path in paths}     # once, in __init__",
    ),
    effort="hours",
    risk="assumes that all but one of a sample's files are small enough to be kept",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for small files, cold or warm."""
    inputs, hot = diagnosis.inputs, hot_files_of(diagnosis)
    cause = dearest(diagnosis, ("input.storage", "input.preprocess"))
    per_file_s = inputs.storage + _system(inputs) * (inputs.cpu - inputs.collate)
    pays = waits(diagnosis) and diagnosis.causes.get(cause, 1.0) >= PAYS
    if not pays or per_file_s < FILE_SHARE * making_s(inputs):
        return None
    if inputs.opens is None or inputs.read_bytes is None:
        return Abstention(ID, "opens and bytes read per batch")
    each_bytes = inputs.read_bytes / max(inputs.opens, 1e-9)
    opens = inputs.opens / max(inputs.samples, 1.0)
    again = hot is not None and hot.files <= SAME_FILES
    if opens < OPENS_PER_SAMPLE or each_bytes >= LARGE_READ_BYTES or again:
        return None
    reads = judge_reads(diagnosis)
    known = (
        ("files opened per sample", "opens_per_sample", opens, "open events"),
        ("bytes read per open", "bytes_per_open", each_bytes, "task io, open events"),
        ("share of the fetch's CPU that is the kernel's", "fetch_system_share", _system(inputs), "getrusage"),
    )
    evidence = [Evidence(*one) for one in known] + wait_evidence(diagnosis)
    evidence += read_evidence(diagnosis, reads) if inputs.storage_bytes else []
    streams = streams_of(reads) if inputs.storage_bytes else None
    proposals = _proposals(diagnosis, opens) + more_workers(diagnosis, streams)
    return Finding(ID, cause, evidence, proposals, place_of(diagnosis))


def _system(inputs: Inputs) -> float:
    """The kernel's share of the CPU that fetching costs, collating apart: that touches fresh memory."""
    fetching = inputs.cpu - inputs.collate
    return max(0.0, min(inputs.system - inputs.collate, fetching)) / fetching if fetching > 0 else 0.0


def _beside_reads(inputs: Inputs) -> float:
    """The same of the CPU that is left without the kernel's for cold reads, which goes with the reads."""
    system = _system(inputs) * (inputs.cpu - inputs.collate)
    return max(0.0, system - inputs.reading) / inputs.fetching


def _proposals(diagnosis: Diagnosis, opens: float) -> list[Proposal]:
    """One large file for many; and, where a second file comes with each sample, its content kept."""
    scenario, place = given(diagnosis.scenario), place_of(diagnosis)
    system = _beside_reads(diagnosis.inputs)
    packed = [Change(storage=asleep, cpu=1 - (1 - cpu) * min(1.0, times * system))
              for asleep, cpu, times in zip(ASLEEP_PACKED, CPU_PACKED, ALIKE, strict=True)]  # fmt: skip
    proposals = [replace(PACK.at(place), factor=spread(scenario, *packed))]
    if opens >= SIDE_FILES:
        kept = Change(storage=1 / opens, cpu=1 - (1 - 1 / opens) * system)
        proposals.append(replace(REMEMBER.at(place), factor=spread(scenario, Change(), kept, kept)))
    return proposals


COLD = BatchCost(0.002, storage=0.02)
WARM = BatchCost(0.02)
SMALL = {"read_bytes": 5e5, "reads": 64.0, "opens": 32.0}
COLD_FILES = inputs_of(COLD, 1, 0.022, system=0.001, storage_bytes=5e5, **SMALL)
WARM_FILES = inputs_of(WARM, 1, 0.02, system=0.012, **SMALL)


def _case(work: BatchCost, inputs: Inputs) -> Diagnosis:
    return patient(work, StepCost(0.0, 0.002), workers=1, inputs=inputs)


def _one_file(sick: Diagnosis) -> Diagnosis:
    return replace(sick, profile=replace(sick.profile, hot_files=[HotFiles("1:1", 1, 0)]))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("cold small files", _case(COLD, COLD_FILES), "fires", "pack-shards"),
        Case("warm small files", _case(WARM, WARM_FILES), "fires", "pack-shards"),
        Case(
            "an image and its label file",
            _case(COLD, replace(COLD_FILES, opens=64.0)),
            "fires",
            "cache-metadata",
        ),
        Case("warm files, decoded", _case(WARM, replace(WARM_FILES, system=0.002)), "silent"),
        Case("large files", _case(COLD, replace(COLD_FILES, read_bytes=64e6)), "silent"),
        Case("one file, opened per sample", _one_file(_case(COLD, COLD_FILES)), "silent"),
        Case("opens were not counted", _case(COLD, replace(COLD_FILES, opens=None)), "abstains"),
    )


FINDING = Entry(ID, "input.storage", examine, needs=(timed_fetches,), remedies=(PACK, REMEMBER, WORKERS))
