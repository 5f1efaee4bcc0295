"""Judges whether the job is short of memory, and how long the training loop itself stalls for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..model.diagnosis import Inputs, StepCost
from ..model.profile import Profile
from .host import rate

AGAIN_SHARE = 0.3  # of the bytes that the job reads were in memory shortly before: it is too small (ours)
AGAIN_BYTES_PER_S = 1 << 20  # less than this comes again on any busy machine (ours)
STALLED = 0.1  # share of time in which some task waits for memory [catalogue F19]
FAULTS_AT_LEAST = 0.2  # pages per step that the loop's own process had to wait for (ours)
DEAREST_FAULT_S = 0.02  # a page from a spinning disk, or with the readahead around it (ours)


@dataclass(frozen=True)
class Shortage:
    """Signs of too little memory, as rates over a stretch of time; None = not measured.

    ``stalled`` and ``reading`` are the kernel's pressure totals (some task waits for memory, for a device) of
    ``scope``; ``again`` is what was read that memory had held shortly before; ``loop_faults`` are pages per
    step that others than the makers of batches waited for. ``system_share`` is the kernel's part of the job's
    CPU: reclaiming and mapping pages is most of it where memory is short.
    """

    stalled: float | None
    reading: float | None
    again_bytes_per_s: float | None
    swap_in_bytes_per_s: float | None
    limit_hits_per_s: float | None
    job_read_bytes_per_s: float | None
    loop_faults: float | None
    system_share: float | None = None


def measure_shortage(profile: Profile, inputs: Inputs, begin: float, end: float, step_s: float) -> Shortage:
    """What the counters say of a stretch of time."""
    series = profile.series
    faults = rate(series, "job_major_faults", begin, end)
    system, cpu = rate(series, "job_system_s", begin, end), rate(series, "job_cpu_s", begin, end)
    return Shortage(
        stalled=rate(series, "pressure_memory_some_s", begin, end),
        reading=rate(series, "pressure_io_some_s", begin, end),
        again_bytes_per_s=rate(series, "refault_bytes", begin, end),
        swap_in_bytes_per_s=rate(series, "swap_in_bytes", begin, end),
        limit_hits_per_s=rate(series, "memory_limit_hits", begin, end),
        job_read_bytes_per_s=rate(series, "job_read_bytes", begin, end),
        loop_faults=None if faults is None else max(0.0, faults * step_s - inputs.major_faults),
        system_share=min(1.0, system / cpu) if system is not None and cpu else None,
    )


def is_short(shortage: Shortage) -> bool:
    """Whether memory is too small for what the job keeps using. Machine-wide signs alone do not convict it:
    the job must itself wait for pages, or be pressed against a limit of its own. Data that is read anew in
    each epoch is no sign: a page cache that is full is in order."""
    again = shortage.again_bytes_per_s or 0.0
    thrashes = again >= max(AGAIN_BYTES_PER_S, AGAIN_SHARE * (shortage.job_read_bytes_per_s or 0.0))
    presses = (shortage.stalled or 0.0) >= STALLED
    swaps = (shortage.swap_in_bytes_per_s or 0.0) >= AGAIN_BYTES_PER_S
    waits = (shortage.loop_faults or 0.0) >= FAULTS_AT_LEAST
    limited = (shortage.limit_hits_per_s or 0.0) >= 1.0
    return (waits and (thrashes or presses or swaps)) or (limited and presses)


def loop_stall_s(shortage: Shortage, step_s: float) -> float:
    """Seconds per step that the loop waits for pages: at most what the kernel saw anyone wait for memory or
    for a device, and what so many pages can take. Zero where memory suffices."""
    faults = shortage.loop_faults or 0.0
    if faults < FAULTS_AT_LEAST or not is_short(shortage) or shortage.reading is None:
        return 0.0
    seen = min(1.0, shortage.reading + (shortage.stalled or 0.0))
    return min(seen * step_s, faults * DEAREST_FAULT_S)


def with_stalls(turns: tuple[StepCost, ...], stall_s: float) -> tuple[StepCost, ...]:
    """The turns with that much of their idle time, where they have it, known to be waiting for memory."""
    if stall_s <= 0:
        return turns
    return tuple(
        replace(turn, idle=turn.idle - min(turn.idle, stall_s), memory=min(turn.idle, stall_s))
        for turn in turns
    )
