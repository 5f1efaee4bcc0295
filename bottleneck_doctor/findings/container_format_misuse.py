"""A container file (HDF5, zip, npz, tar, Parquet) is opened for each sample, or read far beyond what is used.

## What it means
Opening such a file reads its table of contents: for an archive of many members that is more work than one
member. Reading one row may read, and unpack, the whole chunk that it lies in.

## Why it costs
The table is read again for every sample, and thrown away again; or most of what is read is.

## How it is measured
The constructors of `zipfile`, `tarfile`, h5py, PyTables and pyarrow's Parquet are timed inside fetches: wall
and CPU time of each opening, and how many there are. Bytes read (the task's io counters) are held against the
bytes of the finished batch. That rows are unpacked is known by stack samples inside of h5py, PyTables, zarr
or netCDF4.

## Thresholds
One opening for every two samples or more, which take 10 % of what a batch costs its maker (ours). Four times
as many bytes read as delivered, from files with a container's suffix, most of the cost being asleep in
storage or inside such a library.

## When this advice is wrong
A file that is opened before the workers fork must not be used by them: open it in the worker, at the first
sample. Containers opened by libraries that are not on the list are not seen. Random crops use a part of what
they read on purpose.

## Prediction
Replay without the measured time of opening. For a better chunk size a range: from a third of the sleep spared
to a sleep, or unpacking, that shrinks with the bytes. With all rows in memory, from half of it to all.

## References
h5py, "Chunked storage"; zipfile in the Python library; HDF5, "Improving I/O performance with chunking".
"""

from __future__ import annotations

from dataclasses import replace

from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Inputs, Proposal, StepCost
from ..model.fetches import HotFiles, Payload
from ..model.instruments import Stack
from ..model.report import Evidence, Fix
from ..model.run import Process
from .parts.advice import (
    MOST,
    TASK_IO,
    dearest,
    fits_memory,
    held_up,
    making_s,
    payload_of,
    place_of,
    spread,
    wait_evidence,
)
from .parts.entry import Case, Entry, given, inputs_of, patient, timed_fetches
from .parts.lines import hottest_place, line_evidence, lines_of

ID = "container-format-misuse"
OPENINGS_PER_SAMPLE = 0.5  # neighbours in a batch may share one [catalogue F25: about 1]
OPENING_SHARE = 0.1  # of what a batch costs its maker (ours)
OVERREAD = 4.0  # bytes read for each that is delivered [catalogue F25]
SUFFIXES = frozenset(".h5 .hdf5 .he5 .nc .zip .npz .tar .parquet .zarr .n5 .mat .bag .root".split())
CHUNKED_BY = ("h5py", "tables", "zarr", "netCDF4")  # libraries that unpack a chunk for each row of it
HELD = (0.5, 0.1, 0.02)  # of unpacking is left with all rows in memory (ours)
CAUTIOUS = 0.67  # of the sleep is left at worst, when chunks fit the samples (ours)

ONCE = """\
def __getitem__(self, i):
    if self.file is None: self.file = zipfile.ZipFile(self.path)      # in the worker, at its first sample
    return decode(self.file.read(self.names[i]))"""
OPEN_ONCE = Proposal(
    id="open-once-per-worker",
    title="open the container once in each worker and keep it open",
    fix=Fix("open at the first sample, not at every one", ONCE),
    risk="never hand an open HDF5 or zip file to a forked worker",
)
RECHUNK = Proposal(
    id="rechunk",
    title="store the data in chunks that fit the samples",
    fix=Fix(
        "rewrite the file once",
        "out.create_dataset('x', shape, dtype, chunks=(1, *shape[1:]))     # a chunk per sample, lzf or none",
    ),
    apply="convert",
    effort="hours",
    risk="chunks of one sample compress less well",
    basis="bound",
)
UNPACK = Proposal(
    id="cache-bytes-ram",
    title="unpack the data into memory once, before training",
    fix=Fix(
        "read the whole data set at the start, where it fits",
        "self.rows = h5py.File(path)['x'][:]     # once, before workers are forked; then self.rows[i]",
    ),
    risk="needs memory for all of it",
    basis="bound",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when openings, or bytes that nobody uses, are a part of what batches cost."""
    if not held_up(diagnosis):
        return None
    inputs = diagnosis.inputs
    if inputs.containers is None:
        return Abstention(ID, "openings of container files inside fetches")
    cause = dearest(diagnosis, ("input.preprocess", "input.storage"))
    openings = inputs.containers / max(inputs.samples, 1.0)
    if openings >= OPENINGS_PER_SAMPLE and inputs.container >= OPENING_SHARE * making_s(inputs):
        evidence = _openings(inputs, openings) + wait_evidence(diagnosis)
        return Finding(ID, cause, evidence, [_open_once(diagnosis)], place_of(diagnosis))
    return _overread(diagnosis)


def _openings(inputs: Inputs, per_sample: float) -> list[Evidence]:
    share = inputs.container / making_s(inputs)
    known = (
        ("container files opened per sample", "containers_per_sample", per_sample),
        ("time to open one", "container_open_s", inputs.container / (inputs.containers or 1.0)),
        ("share of a batch's cost that opening takes", "container_share", share),
    )
    return [Evidence(*one, "hook on the container's constructor") for one in known]


def _open_once(diagnosis: Diagnosis) -> Proposal:
    """The measured openings fall away: their CPU, and what they slept in reads."""
    inputs = diagnosis.inputs
    fetching = inputs.fetching
    asleep = min(inputs.storage, max(0.0, inputs.container - inputs.container_cpu))
    spared = Change(
        cpu=max(0.0, 1 - inputs.container_cpu / fetching),
        storage=1 - asleep / inputs.storage if inputs.storage > 0 else 1.0,
    )
    return replace(OPEN_ONCE.at(place_of(diagnosis)), change=spared)


def _overread(diagnosis: Diagnosis) -> Finding | None:
    """Far more is read, or unpacked, than the batch holds."""
    inputs, payload, scenario = diagnosis.inputs, payload_of(diagnosis), given(diagnosis.scenario)
    key = given(diagnosis.loader).key
    suffixes = {suffix for one in diagnosis.profile.hot_files if one.loader == key for suffix in one.suffixes}
    delivered = payload.tensor_bytes + payload.other_bytes if payload is not None else 0.0
    if not delivered or not suffixes & SUFFIXES:
        return None
    asleep = inputs.storage >= MOST * making_s(inputs)
    ratio = ((inputs.storage_bytes if asleep else inputs.read_bytes) or 0.0) / delivered
    lines = lines_of(diagnosis)
    unpacking = lines.hottest.share if lines.hottest is not None and lines.library in CHUNKED_BY else 0.0
    if ratio < OVERREAD or not (asleep or unpacking >= MOST):
        return None
    left = (CAUTIOUS, min(CAUTIOUS, 2 / ratio), 1 / ratio)
    changes = [Change(storage=one) if asleep else Change(cpu=1 - unpacking * (1 - one)) for one in left]
    place = hottest_place(diagnosis)
    proposals = [replace(RECHUNK.at(place), factor=spread(scenario, *changes))]
    if not asleep and fits_memory(diagnosis, delivered / max(1.0, inputs.samples)):
        none = (Change(cpu=1 - unpacking * (1 - one)) for one in HELD)
        proposals.insert(0, replace(UNPACK.at(place), factor=spread(scenario, *none)))
    text = "bytes read for each that the batch holds, of packed chunks"
    if asleep:
        text = "bytes read from storage for each that the batch holds"
    evidence = [Evidence(text, "overread", ratio, TASK_IO), *line_evidence(diagnosis)]
    cause = "input.storage" if asleep else "input.preprocess"
    return Finding(ID, cause, evidence + wait_evidence(diagnosis), proposals, place)


WORK = BatchCost(0.02)
REOPENED = inputs_of(WORK, 1, 0.02, containers=32.0, container=0.015, container_cpu=0.015)
COLD = BatchCost(0.002, storage=0.02)
CHUNKED = inputs_of(COLD, 1, 0.022, storage_bytes=64e6, read_bytes=64e6, reads=32.0, containers=0.0)


def _case(inputs: Inputs, work: BatchCost = WORK) -> Diagnosis:
    """A worker that reads rows out of an HDF5 file; batches of 1 MB."""
    sick = patient(work, StepCost(0.0, 0.002), workers=1, inputs=inputs)
    hot = [HotFiles("1:1", 1, 0, {".h5": 1})]
    return replace(sick, profile=replace(sick.profile, hot_files=hot, payloads=[Payload("1:1", 9, 1.0, 1e6)]))


def _unpacked() -> Diagnosis:
    """Its CPU passes inside of h5py; nothing comes from a disk."""
    sick = _case(inputs_of(WORK, 1, 0.02, read_bytes=8e6, reads=32.0, containers=0.0))
    below = "fetch (/x/site-packages/torch/utils/data/_utils/fetch.py:54)"
    path = [
        below,
        "Rows.__getitem__ (/data/train.py:31)",
        "__getitem__ (/x/site-packages/h5py/_hl/dataset.py:9)",
    ]
    maker = Process(7, 1, "worker", 0.0, loader="1:1", worker=0)
    stacks = [Stack(7, "worker", "MainThread", path, 90, 90)]
    return replace(sick, profile=replace(sick.profile, stacks=stacks, processes=[maker]))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    return (
        Case("opened for each sample", _case(REOPENED), "fires", "open-once-per-worker"),
        Case("chunks of 64 rows", _case(CHUNKED, COLD), "fires", "rechunk"),
        Case("rows unpacked out of large chunks", _unpacked(), "fires", "rechunk"),
        Case("opened for each sample, at no cost", _case(replace(REOPENED, container=0.001)), "silent"),
        Case("opened once a batch", _case(replace(REOPENED, containers=1.0)), "silent"),
        Case("as much read as used", _case(replace(CHUNKED, storage_bytes=2e6), COLD), "silent"),
        Case("an older profile", _case(replace(REOPENED, containers=None)), "abstains"),
    )


FINDING = Entry(
    ID, "input.preprocess", examine, needs=(timed_fetches,), remedies=(OPEN_ONCE, RECHUNK, UNPACK)
)
