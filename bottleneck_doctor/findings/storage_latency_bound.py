"""Whoever makes the batches sleeps in reads, while the storage could serve more of them at once.

## What it means
Each read from storage takes its time, and the next one starts when it has ended. The disk is not at its
limit: it is asked too little at once.

## Why it costs
With W makers of batches, c seconds of CPU and w seconds of sleep each, a batch comes every (c + w) / W
seconds. Sleeping needs no core: more makers may sleep side by side than there are cores.

## How it is measured
The time of a fetch less its CPU and less its wait for a core is sleep; what the thread sleeps in is seen
from outside, by system call and wait channel. Page faults of memory-mapped files count as reads. The kernel
counts the task's bytes from storage; the disks' counters say how much was asked of them.

## Thresholds
Data wait above 5 % of the step: the rule of the profiler's TensorBoard plugin. Storage is more than half of
what a batch costs its maker, or the verdict's cause. Reads below 128 KiB are small (the readahead window).
Not said where a control group's read limit is reached to 80 %, nor where the disks are busy to 80 % with
more than 2 large or 32 small requests in their queues, or with small ones on a spinning disk (ours).

## When this advice is wrong
A volume may have a limit of its own that no counter on this machine shows (cloud volumes have): more
readers then wait longer each. A cold first epoch is not a steady one: if the data fits into memory, later
epochs do not read.

## Prediction
Replay of the measured batches with more workers whose sleeps overlap. Where it could not be seen whether
the storage serves more at once, no more than twice the present number of reads is assumed. Hints ahead of a
batch's reads halved the sleep per small read on one virtual disk, and left a quarter for memory-mapped
files (measured). Where a fault reads half a megabyte and more, the kernel's readahead is most of the cost,
and its CPU falls with the sleep, as the bytes do.

## References
posix_fadvise(2), madvise(2); proc(5), "io"; iostat(1) on why %util says little about parallel disks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..analyse.reads import UNSURE, Reads, are_small_files, is_mapped, is_overread, streams_of
from ..model.diagnosis import (
    Abstention,
    BatchCost,
    Change,
    Diagnosis,
    Finding,
    HostLoad,
    Inputs,
    Proposal,
    StepCost,
)
from ..model.report import Fix
from .parts.advice import (
    hot_files_of,
    judge_reads,
    more_workers,
    place_of,
    read_evidence,
    spread,
    starved,
    wait_evidence,
)
from .parts.entry import Case, Entry, given, inputs_of, patient, timed_fetches
from .parts.remedies import STAGE, WORKERS

ID = "storage-latency-bound"
NARROW_BYTES = (2 << 20, 256 << 10, 4 << 10)  # per fault without it: cautious, some windows, one page (ours)
MAPPED_LEFT = (0.5, 0.26, 0.02)  # of the sleep, if pages are asked for ahead [catalogue F20; measured]
HINTED_LEFT = (1.0, 0.5, 0.4)  # of the sleep per read, if hinted at [measured]; none spared with O_DIRECT
HINTED_BYTES = 32 << 10  # per read up to which hints halved the sleep; at 64 KiB three quarters were left
SAMPLES_AT_LEAST = 4  # per batch: hints need something ahead to hint at (ours)
FAST_READ_S = (3e-4, 1.2e-4, 8e-5)  # a small read from a local NVMe disk (ours; data sheets: 60 to 100 us)

NARROW = "mapped.madvise(mmap.MADV_RANDOM)                 # once: no readahead around single rows\n"
MAPPED_FIX = """\
for i in indices:                                    # in __getitems__, before the batch is put together
    start = offset(i) // mmap.PAGESIZE * mmap.PAGESIZE
    mapped.madvise(mmap.MADV_WILLNEED, start, length(i) + offset(i) - start)"""
READ_FIX = """\
for i in indices:                                    # in __getitems__, before the first read
    os.posix_fadvise(fd, offset(i), length(i), os.POSIX_FADV_WILLNEED)"""
HINT = Proposal(
    id="readahead-hints",
    title="tell the kernel what a batch will read before reading it",
    fix=Fix("hint at a batch's samples, then read them", READ_FIX),
    effort="hours",
    risk="reads past the page cache (O_DIRECT) are not helped by hints",
    basis="bound",
)
STAGE_FAST = replace(STAGE, title="copy the data set to a local NVMe disk before training")


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when the loop waits for reads, and the storage is not known to be at its limit."""
    if not starved(diagnosis, "input.storage", diagnosis.inputs.storage):
        return None
    reads = judge_reads(diagnosis)
    if reads.pace not in ("latency", *UNSURE) and not is_overread(diagnosis.inputs, reads):
        return None
    proposals = more_workers(diagnosis, streams_of(reads)) + _hints(diagnosis, reads)
    wasted = are_small_files(diagnosis.inputs) or is_overread(diagnosis.inputs, reads)
    proposals += [] if wasted else _faster(diagnosis, reads)
    evidence = wait_evidence(diagnosis) + read_evidence(diagnosis, reads)
    return Finding(ID, "input.storage", evidence, proposals, place_of(diagnosis))


def _hints(diagnosis: Diagnosis, reads: Reads) -> list[Proposal]:
    """Ask for a batch's pages before the first of them is needed."""
    inputs = diagnosis.inputs
    mapped = is_mapped(inputs)
    small = reads.each_bytes is not None and reads.each_bytes <= HINTED_BYTES
    hot = hot_files_of(diagnosis)
    if hot is not None and hot.direct:
        return []  # past the page cache: hints fill a cache that these reads do not look into
    if not mapped and (not small or inputs.samples < SAMPLES_AT_LEAST):
        return []
    snippet = MAPPED_FIX if mapped else READ_FIX
    factor = _spared(diagnosis, MAPPED_LEFT if mapped else HINTED_LEFT)
    if is_overread(inputs, reads):
        factor, snippet = _narrowed(diagnosis, reads.each_bytes or 0.0), NARROW + MAPPED_FIX
    return [replace(HINT.at(place_of(diagnosis), snippet), factor=factor)]


def _narrowed(diagnosis: Diagnosis, each_bytes: float) -> tuple[float, float, float]:
    """The kernel reads far around each fault: without that, its CPU goes with the sleep."""
    scenario, inputs = given(diagnosis.scenario), diagnosis.inputs
    kernel = min(1.0, inputs.system / inputs.cpu) if inputs.cpu > 0 else 0.0
    left = [min(1.0, size / max(each_bytes, 1.0)) for size in NARROW_BYTES]
    return spread(scenario, *(Change(storage=part, cpu=1 - (1 - part) * kernel) for part in left))


def _faster(diagnosis: Diagnosis, reads: Reads) -> list[Proposal]:
    """A local NVMe disk, where a measured read takes more than twice as long as its read would."""
    if reads.each_s is None or reads.each_s < 2 * FAST_READ_S[1]:
        return []
    factor = _spared(diagnosis, [min(1.0, read_s / reads.each_s) for read_s in FAST_READ_S])
    return [replace(STAGE_FAST.at(place_of(diagnosis)), factor=factor)]


def _spared(diagnosis: Diagnosis, left: Sequence[float]) -> tuple[float, float, float]:
    """The range of speedups when so much of the sleep in reads is left: at worst, likely, at best."""
    return spread(given(diagnosis.scenario), *(Change(storage=one) for one in left))


WORK = BatchCost(0.002, storage=0.02)
SMALL = inputs_of(WORK, 1, 0.022, storage_bytes=2e6, read_bytes=2e6, reads=512.0)
MAPPED = replace(SMALL, read_bytes=0.0, reads=0.0, major_faults=500.0)
LARGE = replace(SMALL, storage_bytes=16e6, read_bytes=16e6, reads=4.0)
QUIET = HostLoad(cores=2.0, disk_busy=0.9, disk_queue=0.9, job_read_bytes_per_s=1e8)


def _case(inputs: Inputs, host: HostLoad = QUIET) -> Diagnosis:
    """One worker that sleeps in reads for most of a batch's 22 ms; the loop uses 2 ms of them."""
    return replace(patient(WORK, StepCost(0.0, 0.002), workers=1, inputs=inputs), host=host)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("small reads one after the other", _case(SMALL), "fires", "workers-auto"),
        Case("a memory map at random", _case(MAPPED), "fires", "readahead-hints"),
        Case(
            "readahead around every row",
            _case(replace(MAPPED, storage_bytes=1e9)),
            "fires",
            "readahead-hints",
        ),
        Case("no disk counters", _case(SMALL, replace(QUIET, disk_busy=None)), "fires", "workers-auto"),
        Case("a full queue of large reads", _case(LARGE, replace(QUIET, disk_queue=20.0)), "silent"),
        Case("decoding, not reading", patient(BatchCost(0.02), StepCost(0.0, 0.002), workers=1), "silent"),
        Case(
            "sleeping, not reading",
            patient(BatchCost(0.002, wait=0.02), StepCost(0.0, 0.002), workers=1),
            "silent",
        ),
        Case("no fetch was timed", _case(Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.storage", examine, needs=(timed_fetches,), remedies=(WORKERS, HINT, STAGE_FAST))
