"""The CPU time of a batch goes into unpacking compressed files.

## What it means
Decompression in Python (gzip, zlib, bz2, lzma, zip, zstd) takes a large part of the CPU that making a batch
costs. "Compressed file" sounds like the disk; where the page cache holds the files, it is the CPU alone.

## Why it costs
Every byte is unpacked again in every epoch, by one thread per file. A format that needs no unpacking is read
at the speed of memory or of the disk; one that unpacks faster (zstd, lz4) costs a fraction.

## How it is measured
Hooks on the standard library's unpackers, block by block, add up the thread's CPU time inside a fetch, and
the bytes that come out.

## Thresholds
Unpacking is 0.4 of a batch's CPU (ours, as for decoders), and removing it would gain 3 % by replay.

## When this advice is wrong
Where files come from a disk or a network that is slow, packed bytes travel faster: look at the storage's
share first. Unpacked files need more room. HDF5 and Parquet unpack in their own libraries, unseen here.

## Prediction
Replay with the unpacking replaced by a copy of the unpacked bytes at 3 GB/s, where all unpacked files fit
into half of the memory, so that the page cache can hold them. Else a range from nothing: the disk would have
to bring more bytes, and nobody has measured how fast.

## References
Python, "gzip" and "zlib"; RFC 1951; NumPy, "numpy.save" and "numpy.savez_compressed".
"""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.inputs import making_of
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import Making
from ..model.report import Evidence, Fix
from ..model.run import Machine
from .parts.advice import BOOKS, COPY_S_PER_BYTE, fits_memory, held_up, spread, wait_evidence
from .parts.entry import Case, Entry, dataloader_loop, given, patient
from .parts.lines import hottest_place, line_evidence

ID = "decompression-bound"
READ_SHARE = 0.05  # of a fetch asleep in reads, below which the page cache holds the files (ours)
UNPACK_SHARE = 0.4  # of a batch's CPU (ours, as for decoders [catalogue F06])

STORED = """\
np.save(path.with_suffix(".npy"), unpack(path))     # once per file, before training
sample = np.load(path.with_suffix(".npy"))          # in __getitem__"""

STORE = Proposal(
    id="reencode-offline",
    title="store the samples so that they need no unpacking",
    fix=Fix("write each file once more, unpacked, and read that", STORED),
    apply="convert",
    effort="hours",
    risk="the files take more room; where memory cannot hold them, the disk must be fast enough",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when unpacking takes much of a batch's CPU and it holds the loop up."""
    inputs, scenario = diagnosis.inputs, given(diagnosis.scenario)
    if not held_up(diagnosis) or not inputs.cpu:
        return None
    making = making_of(diagnosis.profile, diagnosis.loader)
    change = _unpacked(inputs, making)
    if making.unpack_cpu_s < UNPACK_SHARE * inputs.cpu or gain(scenario, change) < WORTH:
        return None
    evidence = [
        Evidence("share of a batch's CPU that unpacking takes", "unpack_share",
                 making.unpack_cpu_s / inputs.cpu, BOOKS),
        Evidence("bytes per batch that came out of it", "unpacked_bytes", making.unpacked_bytes,
                 "hooks on unpackers"),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]  # fmt: skip
    place = hottest_place(diagnosis)
    fits = fits_memory(diagnosis, making.unpacked_bytes / max(inputs.samples, 1.0))
    if fits and inputs.storage < READ_SHARE * inputs.wall:
        proposal = replace(STORE.at(place), change=change, basis="replay")
    else:
        proposal = replace(STORE.at(place), factor=spread(scenario, Change(), change, change))
    return Finding(ID, "input.preprocess", evidence, [proposal], place)


def _unpacked(inputs: Inputs, making: Making) -> Change:
    """Unpacking is gone; the bytes are copied instead."""
    fetching = inputs.fetching
    spared = max(0.0, making.unpack_cpu_s - making.unpacked_bytes * COPY_S_PER_BYTE)
    return Change(cpu=max(0.0, 1 - spared / fetching))


def _case(unpack_s: float, memory: int | None = 64 << 30, cost: StepCost = StepCost(0.0, 0.002)) -> Diagnosis:  # noqa: B008
    """Two workers, 20 ms of CPU a batch, of which so much unpacks 2 MB."""
    base = patient(BatchCost(0.02), cost, workers=2)
    machine = Machine("", "", "", 2, 2.0, memory_bytes=memory)
    makings = [Making("1:1", 400, unpack_s, 2e6)]
    return replace(base, profile=replace(base.profile, makings=makings, machine=machine))


def cases() -> tuple[Case, ...]:
    """Runs in which it fires, stays silent, or cannot say; built on demand, since each is replayed."""
    return (
        Case("gzip files in the page cache", _case(0.016), "fires", "reencode-offline"),
        Case("no memory for them unpacked", _case(0.016, None), "fires", "reencode-offline"),
        Case("another preparation dominates", _case(0.003), "silent"),
        Case("the workers keep up", _case(0.016, cost=StepCost(0.0, 0.03)), "silent"),
        Case("no fetch was timed", replace(_case(0.016), inputs=Inputs()), "abstains"),
    )


FINDING = Entry(ID, "input.preprocess", examine, needs=(dataloader_loop,), remedies=(STORE,))
