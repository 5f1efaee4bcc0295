"""The data set is read from storage in every epoch, although memory could have kept it; or only in the first.

## What it means
The kernel keeps what was read in memory that nobody else uses. Where an epoch finds nothing of the one before
it, the data is larger than that memory, or something throws it out: direct I/O, hints, a memory limit. Where
only the first epoch reads, the run is merely cold: more epochs make it go away.

## Why it costs
From memory a sample costs a copy; from storage it costs a read, and the maker of the batch sleeps meanwhile.
Least-recently-used order is at its worst here: of data a little larger than memory, next to nothing is kept.

## How it is measured
Bytes that came from storage and bytes that were read, per batch and epoch, from the task's io counters. The
size of the data set is what its samples read times their number, or the size of its files where these are
few. Memory that is free comes from the kernel, or from the job's limit.

## Thresholds
Later epochs take half as many bytes from storage as the first, or more: nothing is kept. Less than a tenth:
the run was cold. Data counts as fitting at 70 % of the memory left.

## When this advice is wrong
Data sets that read a small part of each file look smaller than they are. In the first epoch of a long run
nothing can be said. Memory that is free now may be wanted later.

## Prediction
Replay without reads from storage where the data fits; else with the reads of the part that is not kept.

## References
Mohan et al., "Analyzing and Mitigating Data Stalls in DNN Training", VLDB 2021 (MinIO); posix_fadvise(2);
proc(5), "io".
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..analyse.inputs import fetches_of
from ..analyse.reads import Pass, passes_of
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.fetches import FetchTable, HotFiles
from ..model.instruments import Series
from ..model.loops import Loop
from ..model.report import Evidence, Fix
from .parts.advice import (
    TASK_IO,
    hot_files_of,
    memory_left,
    place_of,
    readings,
    spread,
    starved,
    wait_evidence,
)
from .parts.entry import Case, Entry, dataloader_loop, given, inputs_of, patient

ID = "page-cache-misses"
STILL = 0.5  # of the first epoch's bytes from storage in later ones: nothing is kept (ours)
GONE = 0.1  # of them: only the first epoch was cold [catalogue F24: a later hit share above 0.9]
FITS = 0.7  # of the memory left [catalogue F24]
READ_MARK_BYTES = 65536  # per batch from storage, below which no epoch is cold to speak of (ours)
FILES_KNOWN = 64  # as many names are kept; fewer, and they are all the files that there are

PRELOAD = """\
subprocess.run(["cp", "-r", data, "/dev/shm/data"], check=True)    # once, before the data set is built
dataset = Photos("/dev/shm/data")                                  # all workers share it"""
PART = """\
kept = {path: path.read_bytes() for path in paths[: int(share * len(paths))]}   # before workers start
data = kept.get(path) or path.read_bytes()                                      # in __getitem__"""
HOLD_ALL = Proposal(
    id="cache-bytes-ram",
    title="read the data set into memory once, before training",
    fix=Fix("copy it to memory that all workers share", PRELOAD),
    change=Change(storage=0.0),
    apply="manual",
    risk="the start takes as long as reading everything once; memory for all",
)
HOLD_PART = Proposal(
    id="cache-fraction-ram",
    title="keep a fixed part of the data set in memory",
    fix=Fix("hold the first files, and read only the others", PART),
    apply="manual",
    effort="hours",
    risk="memory that nothing else may want; left to itself the kernel keeps next to nothing",
)
MORE_MEMORY = Proposal(
    id="more-ram",
    title="take a machine whose memory holds the data set",
    fix=Fix("a machine, or a limit, with room for the data and for the job"),
    apply="admin",
    effort="days",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when later epochs read what the first one read; as a remark when only the first one did."""
    table = fetches_of(diagnosis.profile, given(diagnosis.loader).key)
    passes = passes_of(table, given(diagnosis.loop)) if table is not None else []
    asleep = starved(diagnosis, "input.storage", diagnosis.inputs.storage)
    if len(passes) < 2:
        return (
            Abstention(ID, "a second epoch: in its first, any training reads cold data") if asleep else None
        )
    first, later = passes[0], fmean([one.stored for one in passes[1:]])
    if first.stored >= READ_MARK_BYTES and later < GONE * first.stored and len(diagnosis.phases) > 1:
        return Finding(ID, "input.storage", [*_evidence(passes), Evidence("later epochs come from memory")])
    if not asleep or later < STILL * max(first.stored, READ_MARK_BYTES):
        return None
    size, left = _size(diagnosis, first), memory_left(diagnosis)
    if size is None or left is None:
        return Abstention(ID, "the size of the data set, and the memory left for it")
    sizes = [
        Evidence("bytes of the data set", "dataset_bytes", size, "task io, file sizes"),
        Evidence("bytes of memory left", "memory_left_bytes", left, "meminfo, control group"),
    ]
    evidence = _evidence(passes) + sizes + wait_evidence(diagnosis)
    return Finding(ID, "input.storage", evidence, _proposals(diagnosis, size, left), place_of(diagnosis))


def _evidence(passes: list[Pass]) -> list[Evidence]:
    later = passes[1:]
    shares = [one.missed for one in later if one.missed is not None]
    known = (
        ("bytes per batch from storage, in the first epoch", "first_epoch_bytes", passes[0].stored),
        ("bytes per batch from storage, later", "later_epochs_bytes", fmean([one.stored for one in later])),
        ("share of the bytes read later that memory had not kept", "cache_miss_share",
         fmean(shares) if shares else None),
    )  # fmt: skip
    return [Evidence(*one, TASK_IO) for one in known if one[2] is not None]


def _size(diagnosis: Diagnosis, first: Pass) -> float | None:
    """Bytes of the data set: of its samples all together, at most of its files where all are known."""
    loader, samples = given(diagnosis.loader), diagnosis.inputs.samples
    if not loader.dataset_length or not samples:
        return None
    size = max(first.read, first.stored) / samples * loader.dataset_length
    hot = hot_files_of(diagnosis)
    return min(size, hot.bytes) if hot is not None and hot.bytes and hot.files < FILES_KNOWN else size


def _proposals(diagnosis: Diagnosis, size: float, left: float) -> list[Proposal]:
    """All of it in memory if it fits, else a fixed part that is never thrown out."""
    scenario, place = given(diagnosis.scenario), place_of(diagnosis)
    if size <= FITS * left:
        return [HOLD_ALL.at(place)]
    kept = FITS * left / size
    part = Change(storage=1 - kept)
    held = spread(scenario, Change(storage=1 - kept / 2), part, part)
    more = spread(scenario, part, Change(storage=0.1), Change(storage=0.0))
    return [replace(HOLD_PART.at(place), factor=held), replace(MORE_MEMORY, factor=more)]


WORK = BatchCost(0.002, storage=0.02)
READ = inputs_of(WORK, 1, 0.022, storage_bytes=4e6, read_bytes=4e6, reads=32.0)


def _case(
    later: int, left: float = 64e9, epochs: int = 2, files: int = 0, work: BatchCost = WORK
) -> Diagnosis:
    """One worker reads 4 MB a batch in the first epoch and ``later`` bytes in those that follow."""
    sick = patient(work, StepCost(0.0, 0.002), workers=1, inputs=READ)
    assert sick.loop is not None
    table = FetchTable("1:1", 100 * epochs)
    for place in range(100 * epochs):
        table.t.append(0.1 * place)
        table.storage_bytes.append(4_000_000 if place < 100 else later)
        table.read_bytes.append(4_000_000)
    starts = [10.0 * epoch for epoch in range(epochs)]
    loop: Loop = replace(sick.loop, epochs=replace(sick.loop.epochs, t=starts))
    series = Series([0.0, 1.0], {"memory_available_bytes": [left, left]})
    hot = [HotFiles("1:1", files, 100_000_000)] if files else []
    profile = replace(sick.profile, fetches=[table], series=series, hot_files=hot)
    return replace(sick, loop=loop, profile=profile)


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    assert readings(_case(0).profile.series, "memory_available_bytes")
    return (
        Case("every epoch is cold, and it would fit", _case(4_000_000), "fires", "cache-bytes-ram"),
        Case("every epoch is cold; half would fit", _case(4_000_000, 5e9), "fires", "cache-fraction-ram"),
        Case("one small file, read in slices", _case(4_000_000, 5e9, files=1), "fires", "cache-bytes-ram"),
        Case("memory keeps most of it", _case(1_000_000), "silent"),
        Case("decoding takes the time", _case(4_000_000, work=BatchCost(0.02)), "silent"),
        Case("the first epoch is not over", _case(0, epochs=1), "abstains"),
    )


FINDING = Entry(
    ID, "input.storage", examine, needs=(dataloader_loop,), remedies=(HOLD_ALL, HOLD_PART, MORE_MEMORY)
)
