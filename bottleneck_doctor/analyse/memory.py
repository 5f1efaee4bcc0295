"""Judges whether the job is short of memory, and how long the training loop itself stalls for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean

from ..model.diagnosis import Inputs, Step, StepCost
from ..model.loops import Loop
from ..model.profile import Profile
from .attribution import TIMED, attribute
from .host import rate
from .loop_parts import FEWEST, samples_in
from .shares import LARGE_PART, NOTICED
from .steps import SAMPLES_AT_LEAST

AGAIN_BYTES_PER_S = 1 << 20  # refaults below this are normal on a busy machine (chosen)
LOOP_FAULTS_AT_LEAST = 0.2  # pages per step that the loop's own process had to wait for (chosen)
DEAREST_FAULT_S = 0.02  # seconds for a page from a spinning disk, or with its readahead (chosen)


@dataclass(frozen=True)
class Shortage:
    """Signs of too little memory, as rates over a stretch of time; None = not measured.

    ``stalled`` and ``reading`` are the kernel's pressure totals (some task waits for memory, for a device) of
    ``scope``; ``again`` is what was read that memory had held shortly before; ``loop_faults`` are pages per
    step that the job waited for outside of making batches. ``system_share`` is the kernel's part of the
    job's CPU: where memory is short, it is mostly reclaiming and mapping pages.
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
    """The counters' growth over a stretch of time, as rates."""
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
    """Whether memory is too small for what the job keeps using. Machine-wide signs alone do not suffice: the
    job must itself wait for pages, or be at a limit of its own. Data that is read again in each epoch is no
    sign: a full page cache is normal."""
    again = shortage.again_bytes_per_s or 0.0
    thrashes = again >= max(AGAIN_BYTES_PER_S, LARGE_PART * (shortage.job_read_bytes_per_s or 0.0))
    presses = (shortage.stalled or 0.0) >= NOTICED
    swaps = (shortage.swap_in_bytes_per_s or 0.0) >= AGAIN_BYTES_PER_S
    waits = (shortage.loop_faults or 0.0) >= LOOP_FAULTS_AT_LEAST
    limited = (shortage.limit_hits_per_s or 0.0) >= 1.0
    return (waits and (thrashes or presses or swaps)) or (limited and presses)


def loop_stall_s(shortage: Shortage, step_s: float) -> float:
    """Seconds per step that the loop waits for pages: at most what the kernel saw anyone wait for memory or
    for a device, and what so many pages can take. Zero where memory suffices."""
    faults = shortage.loop_faults or 0.0
    if faults < LOOP_FAULTS_AT_LEAST or not is_short(shortage) or shortage.reading is None:
        return 0.0
    return min(min(1.0, shortage.reading + (shortage.stalled or 0.0)) * step_s, faults * DEAREST_FAULT_S)


def with_stalls(costs: tuple[StepCost, ...], stall_s: float) -> tuple[StepCost, ...]:
    """The turns with that much of their idle time, where they have it, known to be waiting for memory."""
    if stall_s <= 0:
        return costs
    return tuple(
        replace(cost, idle=cost.idle - min(cost.idle, stall_s), memory=min(cost.idle, stall_s))
        for cost in costs
    )


PAGES_AT_LEAST = 256  # pages: a megabyte (chosen)
FAULT_S = 1.5e-6  # to map, zero and give back a page: the median of 48 recorded machines (1.4 to 3.1)
READ_S_PER_BYTE = 2e-10  # of the kernel's CPU, to copy what the page cache holds (chosen)


def paging_s(system: float | None, faults: float | None, fault_s: float | None = None) -> float:
    """Seconds of kernel CPU ``system`` that mapping pages took in so many minor faults: what they take at
    most. ``fault_s`` is the measured time per page on this machine."""
    if system is None or faults is None or faults < PAGES_AT_LEAST:
        return 0.0
    return min(system, (fault_s or FAULT_S) * faults)


def fetched_paging_s(inputs: Inputs, shared_bytes: float = 0.0) -> float:
    """The same for making a batch, of which ``shared_bytes`` lie in shared memory, which is always new."""
    if inputs.minor_faults is None:
        return 0.0
    system = max(0.0, inputs.system - READ_S_PER_BYTE * (inputs.read_bytes or 0.0))
    return paging_s(system, inputs.minor_faults - shared_bytes / 4096)


def made_paging_s(steps: list[Step]) -> float:
    """The same for a batch that the loop makes itself, where faults are not counted apart: by CPU share."""
    return fmean(_making(step) * paging_s(step.system, step.faults) for step in steps) if steps else 0.0


def without_making(steps: list[Step], inputs: Inputs) -> list[Step]:
    """The steps of a loop that makes its own batches, the kernel's part without what those took: as it was
    counted, or else by their share of the thread's CPU."""
    found = []
    for step in steps:
        if step.system is not None and step.faults is not None:
            left = 1 - _making(step)
            system, faults = left * step.system, left * step.faults
            if inputs.minor_faults is not None:
                system = max(0.0, step.system - inputs.system)
                faults = max(0.0, step.faults - inputs.minor_faults)
            step = replace(step, system=system, faults=faults)
        found.append(step)
    return found


def _making(step: Step) -> float:
    """The share of the thread's CPU that getting the batch took."""
    whole = (step.cpu or 0.0) + (step.wait_cpu or 0.0)
    return (step.wait_cpu or 0.0) / whole if whole > 0 else 0.0


def with_freed(profile: Profile, loop: Loop | None, steps: list[Step]) -> list[Step]:
    """The steps with the time in which that line frees the last batch as part of getting one.

    ``for x in loader`` binds the new batch and drops the old: shared memory of workers is unmapped, behind
    the hook on ``next``. A stopwatch around the line counts it. Samples in the line itself, of all that no
    hook times, tell its share.
    """
    if loop is None or not loop.loader or loop.thread != 0 or loop.body is None:
        return steps
    samples = [one for one in attribute(profile, loop).samples if one.label != "evaluation"]
    asking = {one.line for one in samples if one.part == "data"}
    others = [one for one in samples if one.part not in ("data", *TIMED)]
    freeing = samples_in(one for one in others if one.part == "line" and one.line in asking)
    total = samples_in(others)
    if freeing < FEWEST or total < SAMPLES_AT_LEAST:
        return steps
    found = []
    for step in steps:
        own, moved = step.wall - step.wait, freeing / total * step.compute
        step = replace(step, wait=step.wait + moved, freed=moved, compute=step.compute - moved)
        if step.cpu is not None and step.wait_cpu is not None and own > 0:
            spent = step.cpu * moved / own
            step = replace(step, cpu=step.cpu - spent, wait_cpu=step.wait_cpu + spent)
        found.append(step)
    return found
