"""Archives, HDF5 files and databases: how they are opened, and what unpacking costs."""

from __future__ import annotations

from dataclasses import replace

from ..analyse.causes import gain
from ..analyse.inputs import making_of
from ..analyse.predict import WORTH
from ..model.diagnosis import Abstention, Change, Diagnosis, Finding, Inputs, Proposal
from ..model.fetches import Making
from ..model.report import Evidence, Fix
from .parts.entry import Entry, dataloader_loop, given, spread, timed_fetches
from .parts.facts import payload_of, place_of
from .parts.lines import hottest_place, line_evidence, lines_of
from .parts.memory_room import COPY_S_PER_BYTE, fits_memory
from .parts.reading import TASK_IO
from .parts.waits import BOOKS, MOST, dearest, held_up, making_s, wait_evidence

# container-format-misuse
OPENINGS_PER_SAMPLE = 0.5  # neighbours in a batch may share one (chosen)
OPENING_SHARE = 0.1  # of the time to make a batch (chosen)
OVERREAD = 4.0  # bytes read for each that is delivered (chosen)
SUFFIXES = frozenset(".h5 .hdf5 .he5 .nc .zip .npz .tar .parquet .zarr .n5 .mat .bag .root".split())
CHUNKED_BY = ("h5py", "tables", "zarr", "netCDF4")  # libraries that unpack a chunk for each row of it
HELD = (0.5, 0.1, 0.02)  # of unpacking is left with all rows in memory (chosen)
CAUTIOUS = 0.67  # of the sleep is left at worst, when chunks fit the samples (chosen)
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


def container_format_misuse(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when opening containers, or reading bytes that no sample uses, takes a large share of a batch."""
    if not held_up(diagnosis):
        return None
    inputs = diagnosis.inputs
    if inputs.containers is None:
        return Abstention("container-format-misuse", "openings of container files inside fetches")
    cause = dearest(diagnosis, ("input.preprocess", "input.storage"))
    openings = inputs.containers / max(inputs.samples, 1.0)
    if openings >= OPENINGS_PER_SAMPLE and inputs.container >= OPENING_SHARE * making_s(inputs):
        evidence = _openings(inputs, openings) + wait_evidence(diagnosis)
        return Finding(
            "container-format-misuse", cause, evidence, [_open_once(diagnosis)], place_of(diagnosis)
        )
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
    """Without the measured openings: neither their CPU time nor their sleep in reads."""
    inputs = diagnosis.inputs
    fetching = inputs.fetching
    asleep = min(inputs.storage, max(0.0, inputs.container - inputs.container_cpu))
    spared = Change(
        cpu=max(0.0, 1 - inputs.container_cpu / fetching),
        storage=1 - asleep / inputs.storage if inputs.storage > 0 else 1.0,
    )
    return replace(OPEN_ONCE.at(place_of(diagnosis)), change=spared)


def _overread(diagnosis: Diagnosis) -> Finding | None:
    """Fires when far more bytes are read or unpacked than the batch holds."""
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
    return Finding("container-format-misuse", cause, evidence + wait_evidence(diagnosis), proposals, place)


# decompression-bound
READ_SHARE = 0.05  # of a fetch asleep in reads, below which the page cache holds the files (chosen)
UNPACK_SHARE = 0.4  # of a batch's CPU (chosen, as for decoders)
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


def decompression_bound(diagnosis: Diagnosis) -> Finding | Abstention | None:
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
        Evidence("bytes per batch after unpacking", "unpacked_bytes", making.unpacked_bytes,
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
    return Finding("decompression-bound", "input.preprocess", evidence, [proposal], place)


def _unpacked(inputs: Inputs, making: Making) -> Change:
    """Unpacking is replaced by a copy of the bytes."""
    fetching = inputs.fetching
    spared = max(0.0, making.unpack_cpu_s - making.unpacked_bytes * COPY_S_PER_BYTE)
    return Change(cpu=max(0.0, 1 - spared / fetching))


FINDINGS = (
    Entry(
        "input.preprocess",
        container_format_misuse,
        needs=(timed_fetches,),
        remedies=(OPEN_ONCE, RECHUNK, UNPACK),
    ),
    Entry("input.preprocess", decompression_bound, needs=(dataloader_loop,), remedies=(STORE,)),
)
