"""Archives, HDF5 files and databases: how they are opened, and what unpacking costs."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.inputs import making_of
from ..analyse.predict import TRIFLE
from ..analyse.shares import LARGE_PART, MOST, NOTICED
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal
from ..model.report import Evidence, Fix
from .parts.entry import dataloader_loop, finding, given, timed_fetches
from .parts.facts import TASK_IO, hot_files_of, payload_of, place_of
from .parts.lines import hottest_place, line_evidence, lines_of
from .parts.loader_remedies import IN_MEMORY
from .parts.memory_room import COPY_S_PER_BYTE, fits_memory
from .parts.pricing import MOSTLY, each, left_of, priced
from .parts.waits import BOOKS, dearest, held_up, making_s, wait_evidence

# container-format-misuse
OVERREAD = 4.0  # bytes read for each that is delivered (chosen)
SUFFIXES = frozenset(".h5 .hdf5 .he5 .nc .zip .npz .tar .parquet .zarr .n5 .mat .bag .root".split())
CHUNKED_BY = ("h5py", "tables", "zarr", "netCDF4")  # libraries that unpack a chunk for each row of it
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
    fix=Fix("rewrite the file once", "out.create_dataset('x', shape, dtype, chunks=(1, *shape[1:]))"),
    apply="convert",
    effort="hours",
    risk="chunks of one sample compress less well",
    basis="bound",
)
UNPACK = "self.rows = h5py.File(path)['x'][:]     # once, before workers are forked; then self.rows[i]"


@finding("input.preprocess", OPEN_ONCE, RECHUNK, IN_MEMORY, needs=(timed_fetches,))
def container_format_misuse(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when opening containers, or reading bytes that no sample uses, takes a large share of a batch."""
    inputs, place = diagnosis.inputs, place_of(diagnosis)
    if not held_up(diagnosis):
        return None
    if inputs.containers is None:
        return "openings of container files inside fetches"
    openings = inputs.containers / max(inputs.samples, 1.0)
    share = inputs.container / making_s(inputs)
    if openings < MOST or share < NOTICED:  # neighbours in a batch may share one
        return _overread(diagnosis)
    known = (
        ("container files opened per sample", "containers_per_sample", openings),
        ("time to open one", "container_open_s", inputs.container / (inputs.containers or 1.0)),
        ("share of a batch's cost that opening takes", "container_share", share),
    )
    evidence = [Evidence(*one, "hook on the container's constructor") for one in known]
    asleep = min(inputs.storage, max(0.0, inputs.container - inputs.container_cpu))
    spared = Change(
        cpu=max(0.0, 1 - inputs.container_cpu / inputs.fetching),
        storage=1 - asleep / inputs.storage if inputs.storage > 0 else 1.0,
    )
    cause = dearest(diagnosis, ("input.preprocess", "input.storage"))
    proposals = [replace(OPEN_ONCE.at(place), change=spared)]
    return Finding("container-format-misuse", cause, evidence + wait_evidence(diagnosis), proposals, place)


def _overread(diagnosis: Diagnosis) -> Finding | None:
    """Fires when far more bytes are read or unpacked than the batch holds."""
    inputs, payload, scenario = diagnosis.inputs, payload_of(diagnosis), given(diagnosis.scenario)
    hot, lines = hot_files_of(diagnosis), lines_of(diagnosis)
    delivered = payload.tensor_bytes + payload.other_bytes if payload is not None else 0.0
    if not delivered or hot is None or not SUFFIXES.intersection(hot.suffixes):
        return None
    asleep = inputs.storage >= MOST * making_s(inputs)
    ratio = ((inputs.storage_bytes if asleep else inputs.read_bytes) or 0.0) / delivered
    unpacking = lines.hottest.share if lines.hottest is not None and lines.library in CHUNKED_BY else 0.0
    if ratio < OVERREAD or not (asleep or unpacking >= MOST):
        return None
    left, place = (1.0, min(1.0, 2 / ratio), 1 / ratio), hottest_place(diagnosis)
    changes = each(storage=left) if asleep else each(cpu=left_of(unpacking, left))
    proposals = [priced(RECHUNK.at(place), scenario, *changes)]
    if not asleep and fits_memory(diagnosis, delivered / max(1.0, inputs.samples)):
        none = each(cpu=left_of(unpacking, MOSTLY))
        unpack = replace(IN_MEMORY.at(place, UNPACK, "unpack it once, where it fits"), basis="bound")
        proposals.insert(0, priced(unpack, scenario, *none))
    what = (
        "from storage for each that the batch holds" if asleep else "for each that it holds, of packed chunks"
    )
    evidence = [Evidence(f"bytes read {what}", "overread", ratio, TASK_IO), *line_evidence(diagnosis)]
    cause = "input.storage" if asleep else "input.preprocess"
    return Finding("container-format-misuse", cause, evidence + wait_evidence(diagnosis), proposals, place)


# decompression-bound
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


@finding("input.preprocess", STORE, needs=(dataloader_loop,))
def decompression_bound(diagnosis: Diagnosis) -> Finding | None:
    """Fires when unpacking takes much of a batch's CPU and it holds the loop up."""
    inputs, scenario, place = diagnosis.inputs, given(diagnosis.scenario), hottest_place(diagnosis)
    making = making_of(diagnosis.profile, diagnosis.loader)
    if not held_up(diagnosis) or not inputs.cpu or making.unpack_cpu_s < LARGE_PART * inputs.cpu:
        return None
    share, size, source = making.unpack_cpu_s / inputs.cpu, making.unpacked_bytes, "hooks on unpackers"
    evidence = [
        Evidence("share of a batch's CPU that unpacking takes", "unpack_share", share, BOOKS),
        Evidence("bytes per batch after unpacking", "unpacked_bytes", size, source),
        *line_evidence(diagnosis),
        *wait_evidence(diagnosis),
    ]
    spared = max(0.0, making.unpack_cpu_s - size * COPY_S_PER_BYTE)  # it becomes a copy of the bytes
    change = Change(cpu=max(0.0, 1 - spared / inputs.fetching))
    fits = fits_memory(diagnosis, size / max(inputs.samples, 1.0))
    if fits and inputs.storage < TRIFLE * inputs.wall:  # the page cache holds the files
        proposal = replace(STORE.at(place), change=change, basis="replay")
    else:
        proposal = priced(STORE.at(place), scenario, Change(), change, change)
    return Finding("decompression-bound", "input.preprocess", evidence, [proposal], place)
