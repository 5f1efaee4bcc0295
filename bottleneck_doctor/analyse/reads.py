"""Judges how storage serves a data set's reads: one at a time, or as fast as the device or a limit allows."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.diagnosis import HostLoad, Inputs
from ..model.profile import Profile
from .shares import NEARLY_ALL

# the usual readahead window; larger, and transfer is what costs (Linux's read_ahead_kb)
LARGE_READ_BYTES = 128 << 10
LARGE_QUEUE = 2.0  # large requests in flight beyond which the wire is kept full (chosen)
SMALL_QUEUE = 32.0  # small requests in flight beyond which they queue [Serial ATA: 32 commands at once]
FAULTS_PER_BATCH = 20  # major faults from which a data set is read through a memory map (chosen)
OVERREAD_BYTES = 4 * LARGE_READ_BYTES  # per fault: four usual windows around a row that needs a page
UNSURE = ("unsure", "unseen")


@dataclass(frozen=True)
class Reads:
    """How the data set's reads are served. ``pace``: limit (a control group's), device (the disk gives all it
    can), latency (each read's own), unsure (large reads, no more requested), unseen (no counters).
    ``readers`` is the mean number of reads under way at once; ``each_*`` are per read from a disk."""

    pace: str
    readers: float
    each_bytes: float | None
    each_s: float | None


def judge_reads(
    profile: Profile, key: str, workers: int, inputs: Inputs, host: HostLoad, step_s: float
) -> Reads:
    """How storage serves the loader ``key``."""
    making_s = max(inputs.cpu + inputs.storage + inputs.network + inputs.wait, 1e-12)
    readers = max(1, workers) * inputs.storage / making_s  # their makers being busy
    # Reads per batch that memory did not answer; a page fault is a read that no call shows.
    stored, delivered = inputs.storage_bytes, inputs.read_bytes
    cold = min(1.0, stored / delivered) if stored and delivered else 1.0
    count = (inputs.reads or 0.0) * cold + inputs.major_faults
    each_bytes = stored / count if stored is not None and count else None
    calls_per_s = count / step_s if step_s else 0.0
    machine, bytes_per_s = profile.machine, host.job_read_bytes_per_s or 0.0
    limits = ((bytes_per_s, machine.read_limit_bytes_per_s), (calls_per_s, machine.read_limit_iops))
    if any(limit and value >= NEARLY_ALL * limit for value, limit in limits):
        pace = "limit"
    else:
        spins = any(hot.rotational is True for hot in profile.hot_files if hot.loader == key)
        pace = _pace_of_disks(each_bytes, host, spins)
    return Reads(pace, readers, each_bytes, inputs.storage / count if count else None)


def _pace_of_disks(each_bytes: float | None, host: HostLoad, spins: bool) -> str:
    """By how long the queue of requests is."""
    if each_bytes is None or host.disk_busy is None:
        return "unseen"
    large, queue = each_bytes >= LARGE_READ_BYTES, host.disk_queue or 0.0
    crowded = queue >= (LARGE_QUEUE if large else SMALL_QUEUE) or (not large and spins)
    if host.disk_busy >= NEARLY_ALL and crowded:
        return "device"
    return "unsure" if large else "latency"


def is_mapped(inputs: Inputs) -> bool:
    """Whether the data set is read through a memory map: by faults, not by calls."""
    return inputs.major_faults >= FAULTS_PER_BATCH and inputs.major_faults > (inputs.reads or 0.0)


def is_overread(inputs: Inputs, reads: Reads) -> bool:
    """Whether the kernel reads far around each fault: then readahead is what keeps the disk busy."""
    return is_mapped(inputs) and (reads.each_bytes or 0.0) >= OVERREAD_BYTES


def streams_of(reads: Reads) -> float | None:
    """How many reads the storage serves at once before each gets slower; None = more than are requested."""
    if reads.pace == "latency":
        return None
    return 2 * reads.readers if reads.pace in UNSURE else reads.readers


def are_small_files(inputs: Inputs) -> bool:
    """Whether each sample is a small file of its own: then the number of files sets the cost."""
    opens = inputs.opens or 0.0
    each_bytes = (inputs.read_bytes or 0.0) / max(opens, 1e-9)
    return opens >= NEARLY_ALL * max(1.0, inputs.samples) and each_bytes < LARGE_READ_BYTES
