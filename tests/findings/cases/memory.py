"""Cases of the findings in memory.py."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.device import Allocator, DeviceFacts, DeviceWindow
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, StepCost
from bottleneck_doctor.model.instruments import Series
from bottleneck_doctor.model.profile import Profile
from tests.findings.builders import (
    SATURATED,
    Case,
    abstains,
    accelerator_run,
    fires,
    inputs_of,
    silent,
    steady_run,
)

# memory-pressure
TIMES = [float(second) for second in range(0, 41, 2)]


def _pressure_case(cost: StepCost, left: float = 1e9, **per_s: float) -> Diagnosis:
    """Forty seconds of steady steps; counters grow by ``per_s`` each second."""
    base = steady_run(BatchCost(0.001), cost)
    values = {name: [t * value for t in TIMES] for name, value in per_s.items()}
    values["memory_available_bytes"] = [left for _ in TIMES]
    series = Series(TIMES, {name: list(column) for name, column in values.items()})
    steps = [replace(step, t=0.1 * place) for place, step in enumerate(base.steps)]
    return replace(base, steps=steps, profile=replace(base.profile, series=series))


def _settles() -> Diagnosis:
    """A gigabyte in forty seconds; most is allocated early, and some is freed."""
    sick = _pressure_case(StepCost(0.01), refault_bytes=0.0, job_private_bytes=1.0)
    taken = [1e9 * (t / TIMES[-1]) ** 0.5 - 1e8 * (place % 3) for place, t in enumerate(TIMES)]
    series = replace(sick.profile.series, values={**sick.profile.series.values, "job_private_bytes": taken})
    return replace(sick, profile=replace(sick.profile, series=series))


def _unread() -> Diagnosis:
    well = steady_run(BatchCost(0.001), StepCost(0.01))
    return replace(well, profile=Profile(well.profile.run, well.profile.machine))


def memory_pressure() -> tuple[Case, ...]:
    thrash = {
        "refault_bytes": 5e8,
        "job_read_bytes": 5e8,
        "pressure_io_some_s": 0.6,
        "job_major_faults": 500.0,
    }
    swaps = {"swap_in_bytes": 5e7, "refault_bytes": 0.0, "job_major_faults": 900.0}
    grows = {"refault_bytes": 0.0, "job_private_bytes": 1e9}
    stalled, well = StepCost(0.002, memory=0.008), StepCost(0.01)
    return (
        fires("pages come back all the time", _pressure_case(stalled, **thrash), "release-references"),
        fires("it swaps", _pressure_case(stalled, **swaps), "more-ram"),
        fires("each step adds ten megabytes", _pressure_case(well, **grows)),
        silent("the heap settles", _settles()),
        silent("it lasts for weeks", _pressure_case(well, 1e15, **grows)),
        abstains("no counters", _unread()),
    )


# pages-mapped-anew
def pages_mapped_anew() -> tuple[Case, ...]:
    pictures = BatchCost(0.06)
    mapped = inputs_of(pictures, 2, 0.03, system=0.02, minor_faults=8000.0)
    decoded = steady_run(pictures, StepCost(0.002), workers=2, inputs=mapped)
    canvases, hint, little = (
        steady_run(BatchCost(1e-4), StepCost(0.01, paging=one)) for one in (0.02, 1e-3, 2e-4)
    )
    return (
        fires("canvases made in each step", canvases, "keep-freed-memory"),
        fires("pictures decoded by two workers", decoded, "keep-freed-memory"),
        fires("a tenth of the step: a hint", hint, "none"),
        silent("a little of it", little),
    )


# alloc-churn
CHURNING = DeviceWindow(400, 0.02, 0.013, memory_s=0.004, launch_s=0.003, host_s=0.01)
CALLED = {"device_allocs": 900, "empty_cache_calls": 400}
FRAGMENTED = {"device_allocs": 300, "retries": 40}


def _facts(counters: dict[str, int]) -> DeviceFacts:
    return DeviceFacts(allocator=Allocator(400, **counters))


def alloc_churn() -> tuple[Case, ...]:
    return (
        fires("empty_cache in every step", accelerator_run(CHURNING, _facts(CALLED)), "drop-empty-cache"),
        fires("fragmented", accelerator_run(CHURNING, _facts(FRAGMENTED)), "expandable-segments"),
        silent("one allocation in a long run", accelerator_run(SATURATED, _facts({"device_allocs": 1}))),
        abstains("no counters were read", accelerator_run(CHURNING)),
    )


# gpu-memory-tradeoff
GIB = 2**30  # bytes, for the cases


def _tradeoff_case(repeated: float | None, peak: int | None = 24) -> Diagnosis:
    """``peak`` in GiB of 80."""
    allocator = None if peak is None else Allocator(400, peak_bytes=peak * GIB)
    facts = DeviceFacts(memory_bytes=80 * GIB, allocator=allocator, recompute_s=repeated)
    return accelerator_run(SATURATED, facts)


def gpu_memory_tradeoff() -> tuple[Case, ...]:
    return (
        fires("every block is computed twice", _tradeoff_case(0.005), "checkpointing-off"),
        silent("memory is needed", _tradeoff_case(0.005, 70)),
        silent("nothing is repeated", _tradeoff_case(0.0)),
        abstains("the allocator was not asked", _tradeoff_case(0.005, None)),
        abstains("checkpointing was not watched", _tradeoff_case(None)),
    )
