"""The kernel's CPU for memory that is freed and mapped anew, in each step or batch."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ..model.diagnosis import Inputs, Step

FAULTS_AT_LEAST = 256  # pages: a megabyte (ours)
FAULT_S, FAULT_AT_MOST_S = 1e-6, 4e-6  # to map, zero and give back a page (ours, measured 0.5 to 3.3)
DEARER = 1.25  # times what a page was timed to take, at most (ours: 0.9 to 1.24 in nine trainings)
SURELY = 1.1  # times what fetches took on average is theirs: two large numbers are subtracted (ours)
READ_S_PER_BYTE = 2e-10  # of the kernel's CPU, to copy what the page cache holds (ours)


def paging_s(system: float | None, faults: float | None, fault_s: float | None = None) -> float:
    """Of so many seconds of kernel CPU, with so many minor faults, what mapping pages took: all of it, unless
    that is too much for them. ``fault_s`` is what a page was timed to take on this machine."""
    if system is None or faults is None or faults < FAULTS_AT_LEAST:
        return 0.0
    if fault_s:
        return min(system, DEARER * fault_s * faults)
    return system if system <= FAULT_AT_MOST_S * faults else FAULT_S * faults


def fetched_paging_s(inputs: Inputs, shared_bytes: float = 0.0) -> float:
    """The same for making a batch, of which ``shared_bytes`` lie in shared memory, which is always new."""
    if inputs.minor_faults is None:
        return 0.0
    system = max(0.0, inputs.system - READ_S_PER_BYTE * (inputs.read_bytes or 0.0))
    return paging_s(system, inputs.minor_faults - shared_bytes / 4096)


def made_paging_s(steps: list[Step]) -> float:
    """The same for a batch that the loop makes itself, where nobody counts: by its share of the CPU."""
    return fmean(_making(step) * paging_s(step.system, step.faults) for step in steps) if steps else 0.0


def without_making(steps: list[Step], inputs: Inputs) -> list[Step]:
    """The steps of a loop that makes its own batches, the kernel's part without what those took: as it was
    counted, or else by their share of the thread's CPU."""
    return [_without_making(step, inputs) for step in steps]


def _without_making(step: Step, inputs: Inputs) -> Step:
    if step.system is None or step.faults is None:
        return step
    if inputs.minor_faults is not None:
        system, faults = step.system - SURELY * inputs.system, step.faults - SURELY * inputs.minor_faults
        return replace(step, system=max(0.0, system), faults=max(0.0, faults))
    share = 1 - _making(step)
    return replace(step, system=share * step.system, faults=share * step.faults)


def _making(step: Step) -> float:
    """The share of the thread's CPU that getting the batch took."""
    whole = (step.cpu or 0.0) + (step.wait_cpu or 0.0)
    return (step.wait_cpu or 0.0) / whole if whole > 0 else 0.0
