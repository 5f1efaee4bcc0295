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
At least 0.9 opens per sample and less than 128 KiB per open (ours). Cold: storage is more than half of what
a batch costs its maker, or the verdict's cause. Warm: more than 40 % of the fetch's CPU is the kernel's,
and the loop waits for more than 5 % of the step. Silent if no more than four files are opened again and
again: that is another ailment.

## When this advice is wrong
Libraries that open files in C are not seen. On a local NVMe disk, and read in random order, packed files
are no faster than single ones (measured: 33 and 32 us asleep per sample): shards must be read from front to
back and shuffled in a buffer. Kernel CPU may come from fresh memory instead of files.

## Prediction
Replay with the sleep per sample that reading packed samples in order leaves (0.4 measured on two virtual
disks; spinning disks and networks gain more) and half of the kernel's part of the CPU.

## References
WebDataset and MosaicML Streaming, on shards; torch.utils.data on iterable data sets; path_resolution(7).
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, Change, Cure, Diagnosis, Finding, Inputs, Turn, Work
from ..model.profile import HotFiles
from ..model.report import Evidence, Fix
from .advice import (
    LARGE_READ_BYTES,
    PAYS,
    WAIT_SHARE,
    judge_reads,
    more_workers,
    place_of,
    read_evidence,
    starved,
    streams_of,
    unseen,
    wait_evidence,
)
from .case import inputs_of, patient
from .entry import Case, Entry

OPENS_PER_SAMPLE = 0.9  # one file each, with room for the odd one kept open (ours)
SYSTEM_SHARE = 0.4  # of the fetch's CPU [knowledge F22, P2.2]
SAME_FILES = 4  # opened over and over: a container opened per sample, not many small files (ours)
SIDE_FILES = 1.8  # opens per sample from which a second file comes with each (ours)
ASLEEP_PACKED = 0.4  # of the sleep per sample [knowledge F22: 52 to 23 us; measured again: 32 to 10 us]
SYSTEM_PACKED = 0.5  # of the kernel's CPU per sample [measured warm: 23 to 13 and 4.4 to 2.2 us]

PACK = """\
with tarfile.open("shard-000.tar", "w") as shard:         # some 100 MB each, samples already shuffled
    for k, (image, label) in enumerate(samples):
        add(shard, f"{k:08d}.jpg", image)
        add(shard, f"{k:08d}.cls", str(label).encode())"""
REMEMBER = """\
self.labels = {path: read_label(path) for path in paths}   # once, in __init__; then self.labels[path]"""


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for small files, cold or warm."""
    blind = unseen(diagnosis, "small-files")
    if blind is not None:
        return blind
    inputs = diagnosis.inputs
    cold = starved(diagnosis, "input.storage", inputs.storage)
    if not cold and not _warm(diagnosis):
        return None
    if inputs.opens is None or inputs.read_bytes is None:
        return Abstention("small-files", "opens and bytes read per batch")
    each_bytes = inputs.read_bytes / max(inputs.opens, 1e-9)
    opens = inputs.opens / max(inputs.samples, 1.0)
    if opens < OPENS_PER_SAMPLE or each_bytes >= LARGE_READ_BYTES or _same_files(diagnosis):
        return None
    reads = judge_reads(diagnosis)
    evidence = [Evidence("files opened per sample", "opens_per_sample", opens, "open events"),
                Evidence("bytes read per open", "bytes_per_open", each_bytes, "task io, open events"),
                Evidence("share of the fetch's CPU that is the kernel's", "fetch_system_share", _system(inputs), "rusage"),
                *wait_evidence(diagnosis), *(read_evidence(diagnosis, reads) if cold else ())]  # fmt: skip
    cures = _pack(diagnosis, inputs) + _remember(diagnosis, opens)
    cures += more_workers(diagnosis, streams_of(reads) if cold else None)
    return Finding(
        "small-files", "input.storage" if cold else "input.preprocess", evidence, cures, place_of(diagnosis)
    )


def _warm(diagnosis: Diagnosis) -> bool:
    waits = diagnosis.wait_s >= WAIT_SHARE * diagnosis.step_s
    pays = diagnosis.causes.get("input.preprocess", 1.0) >= PAYS
    return waits and pays and _system(diagnosis.inputs) > SYSTEM_SHARE


def _system(inputs: Inputs) -> float:
    """The kernel's share of the CPU that fetching costs, collating apart: that touches fresh memory."""
    fetching = inputs.cpu - inputs.collate
    return max(0.0, min(inputs.system - inputs.collate, fetching)) / fetching if fetching > 0 else 0.0


def _same_files(diagnosis: Diagnosis) -> bool:
    assert diagnosis.loader is not None
    key = diagnosis.loader.key
    return any(hot.loader == key and hot.files <= SAME_FILES for hot in diagnosis.profile.hot_files)


def _pack(diagnosis: Diagnosis, inputs: Inputs) -> list[Cure]:
    change = Change(storage=ASLEEP_PACKED, cpu=1 - (1 - SYSTEM_PACKED) * _system(inputs))
    return [
        Cure(
            id="pack-shards",
            title="pack the samples into large files and read those from front to back",
            fix=Fix("write shards once (WebDataset, MDS, LMDB, TFRecord)", PACK, place_of(diagnosis)),
            change=change,
            apply="convert",
            effort="hours",
            risk="order: shuffle shards and a buffer; each worker needs shards of its own",
            basis="range",
        )
    ]


def _remember(diagnosis: Diagnosis, opens: float) -> list[Cure]:
    """Where a second small file comes with each sample, its content can be kept."""
    if opens < SIDE_FILES:
        return []
    left = 1 / opens
    change = Change(storage=left, cpu=1 - (1 - left) * _system(diagnosis.inputs))
    return [
        Cure(
            id="cache-metadata",
            title="read labels and file lists once, not with every sample",
            fix=Fix("keep what the side files hold in memory", REMEMBER, place_of(diagnosis)),
            change=change,
            effort="hours",
            risk="assumes that all but one of a sample's files are small enough to be kept",
            basis="range",
        )
    ]


COLD = Work(0.002, storage=0.02)
WARM = Work(0.02)
COLD_FILES = inputs_of(
    COLD, 1, 0.022, system=0.001, storage_bytes=5e5, read_bytes=5e5, reads=64.0, opens=32.0
)
WARM_FILES = inputs_of(WARM, 1, 0.02, system=0.012, read_bytes=5e5, reads=64.0, opens=32.0)


def _case(work: Work, inputs: Inputs) -> Diagnosis:
    return patient(work, Turn(0.0, 0.002), workers=1, inputs=inputs)


def _one_file(sick: Diagnosis) -> Diagnosis:
    return replace(sick, profile=replace(sick.profile, hot_files=[HotFiles("1:1", 1, 0)]))


CASES = (
    Case("cold small files", _case(COLD, COLD_FILES), "fires", "pack-shards"),
    Case("warm small files", _case(WARM, WARM_FILES), "fires", "pack-shards"),
    Case(
        "an image and its label file", _case(COLD, replace(COLD_FILES, opens=64.0)), "fires", "cache-metadata"
    ),
    Case("warm files, decoded", _case(WARM, replace(WARM_FILES, system=0.002)), "silent"),
    Case("large files", _case(COLD, replace(COLD_FILES, read_bytes=64e6)), "silent"),
    Case("one file, kept open", _case(COLD, replace(COLD_FILES, opens=0.0)), "silent"),
    Case("one file, opened per sample", _one_file(_case(COLD, COLD_FILES)), "silent"),
    Case("opens were not counted", _case(COLD, replace(COLD_FILES, opens=None)), "abstains"),
)
FINDING = Entry("small-files", "input.storage", examine)
