"""How much may be kept in memory, and what a step costs with it kept."""

from __future__ import annotations

from ...model.diagnosis import Change, Diagnosis, Inputs, Proposal
from ...model.report import Fix
from ...model.run import Treatment
from .facts import readings
from .loader_remedies import meant


def keeping(diagnosis: Diagnosis) -> tuple[Treatment, ...]:
    """The treatment that keeps this loader's finished samples in memory, up to ``room_to_keep`` bytes."""
    loader, room = diagnosis.loader, room_to_keep(diagnosis)
    if loader is None or not room:
        return ()
    return (Treatment("cache", {"where": meant(loader), "bytes": int(room)}),)


MORE_MEMORY = Proposal(
    id="more-ram",
    title="give the job more memory",
    fix=Fix(
        "raise the container's limit", "docker run --memory=64g ...  # kubernetes: resources.limits.memory"
    ),
    apply="admin",
    basis="bound",
)
KEEP_SHARE = 0.5  # of the memory allowed, at most, for samples kept in it (chosen)
COPY_S_PER_BYTE = 1 / 3e9  # CPU to take a sample that lies in memory (chosen: a third of what a core copies)
TAKE_S = 5e-6  # and per sample for Python to find it (measured: indexing a tensor)


def room_to_keep(diagnosis: Diagnosis) -> float:
    """Bytes that samples or files may take in memory; 0 where its size is not known."""
    machine = diagnosis.profile.machine
    known = [size for size in (machine.memory_bytes, machine.memory_limit_bytes) if size]
    return KEEP_SHARE * min(known, default=0)


def fits_memory(diagnosis: Diagnosis, sample_bytes: float) -> bool:
    """Whether all samples, kept in memory, leave half of it free; False where either size is not known."""
    length = diagnosis.loader.dataset_length if diagnosis.loader is not None else None
    return 0 < (length or 0) * sample_bytes <= room_to_keep(diagnosis)


def remembering(inputs: Inputs, sample_bytes: float, spared_s: float) -> Change:
    """Samples stay in memory: ``spared_s`` of CPU per batch, and every wait, become a copy out of memory."""
    fetching = inputs.fetching
    taking = inputs.samples * (TAKE_S + sample_bytes * COPY_S_PER_BYTE)
    left = max(0.0, fetching - spared_s) + taking
    return Change(cpu=min(1.0, left / fetching), storage=0.0, network=0.0, wait=0.0)


def memory_left(diagnosis: Diagnosis) -> float | None:
    """Bytes that the job could still use: what the machine or its own limit leaves, whichever is less."""
    series, machine = diagnosis.profile.series, diagnosis.profile.machine
    available = min((value for _, value in readings(series, "memory_available_bytes")), default=None)
    used = max((value for _, value in readings(series, "job_rss_bytes")), default=None)
    known = [] if available is None else [available]
    if machine.memory_limit_bytes is not None and used is not None:
        known.append(max(0.0, machine.memory_limit_bytes - used))
    return min(known, default=None)
