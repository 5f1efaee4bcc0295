"""Memory that runs out, is mapped again in each step, or grows; the allocator of an accelerator."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from statistics import fmean, linear_regression, pstdev

from ..analyse.memory import Shortage, fetched_paging_s, is_short, made_paging_s, measure_shortage
from ..analyse.predict import TRIFLE, WORTH, gain
from ..analyse.shares import MOST, NOTICED
from ..analyse.steps import span_of
from ..model.diagnosis import Change, Diagnosis, Finding, Proposal, Scenario
from ..model.report import Evidence, Fix
from ..model.run import ENVIRONMENT, Treatment
from .facts import (
    ALLOCATOR,
    CLOCK,
    PROFILER,
    beat_of,
    of_step,
    payload_of,
    peak_share,
    place,
    place_of,
    readings,
    switches,
)
from .registry import device_step, finding, given, snippet, steady_steps
from .remedies import MORE_MEMORY, NOTHING, PARTLY, WHOLLY, each, left_of, memory_left, priced

# memory-pressure
GROWTH_BYTES = 1 << 20  # of private memory per step (chosen)
READINGS_AT_LEAST = 6  # of private memory in the steady window: three for each half (chosen)
STRAIGHT = 12  # times as far as readings stray from a line, or a heap has only settled (chosen)
DAY_S = 86_400.0  # growth that fills the memory later than in a day is not worth an alarm (chosen)
COUNTERS = "vmstat, task stat"
KEPT = snippet("memory", "KEPT")
LET_GO = Proposal(
    id="release-references",
    title="let go of memory that the training does not need",
    fix=Fix("drop what is not used again; smaller caches, fewer workers", snippet("memory", "PRESSURE_DROP")),
    effort="hours",
    risk="assumes that enough can be spared",
    basis="bound",
)
# Against growing memory: no step gets faster, but the run does not die.
FIND_LEAK = Proposal(
    id="release-references",
    title="find what is kept from step to step, and let it go",
    fix=Fix("keep numbers, not tensors with their graphs; for workers, arrays and not lists", KEPT),
    factor=NOTHING,
)


@finding("host.memory", LET_GO, MORE_MEMORY, FIND_LEAK, needs=(steady_steps,))
def memory_pressure(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when dropped pages are read again, or when memory grows so fast that it is full within a day."""
    begin, end = span_of(diagnosis.steps)
    shortage = measure_shortage(diagnosis.profile, diagnosis.inputs, begin, end, diagnosis.step_s)
    if shortage.again_bytes_per_s is None and shortage.stalled is None:
        return "the kernel's counters of page-ins and memory pressure"
    growth, left = growth_per_step(diagnosis), memory_left(diagnosis)
    lasts_s = left / growth * diagnosis.step_s if left is not None and growth > 0 else inf
    short, growing = is_short(shortage), growth >= GROWTH_BYTES and lasts_s < DAY_S
    if not short and not growing:
        return None
    evidence, place = _pressure_evidence(diagnosis, shortage, growth), place_of(diagnosis)
    proposals = _relief(diagnosis, shortage) if short else []
    if growing:
        proposals.append(FIND_LEAK)
    return Finding("memory-pressure", "host.memory", evidence, proposals, place)


def growth_per_step(diagnosis: Diagnosis) -> float:
    """Bytes of private memory that each step adds; the smaller slope of the steady window's two halves."""
    begin, end = span_of(diagnosis.steps)
    known = readings(diagnosis.profile.series, "job_private_bytes")
    within = [one for one in known if begin <= one[0] <= end]
    if len(within) < READINGS_AT_LEAST or diagnosis.step_s <= 0:
        return 0.0
    middle = len(within) // 2
    halves = (within[: middle + 1], within[middle:])
    slopes = [(half[-1][1] - half[0][1]) / max(half[-1][0] - half[0][0], 1e-9) for half in halves]
    line = linear_regression(*zip(*within, strict=True))
    off = pstdev(size - line.slope * t for t, size in within)
    if line.slope * (within[-1][0] - within[0][0]) < STRAIGHT * off:
        return 0.0
    return max(0.0, min(slopes)) * diagnosis.step_s


def _pressure_evidence(diagnosis: Diagnosis, shortage: Shortage, growth: float) -> list[Evidence]:
    stall = fmean(cost.memory for cost in given(diagnosis.scenario).costs)
    known = (
        ("time per step that the loop waits for pages", "memory_stall_s", stall or None, "faults, pressure"),
        ("pages per step that the loop waited for", "loop_faults", shortage.loop_faults, COUNTERS),
        ("bytes per second read again after the kernel dropped them", "refault_bytes_per_s",
         shortage.again_bytes_per_s, COUNTERS),
        ("bytes per second that came back from swap", "swap_in_bytes_per_s",
         shortage.swap_in_bytes_per_s or None, COUNTERS),
        ("times per second that the job hit its memory limit", "limit_hits_per_s",
         shortage.limit_hits_per_s or None, "control group"),
        ("share of time in which some task waits for memory", "memory_pressure", shortage.stalled, "PSI"),
        ("private memory that each step adds, in bytes", "growth_bytes_per_step", growth or None,
         "/proc/PID/status, smaps_rollup"),
        ("bytes of memory left", "memory_left_bytes", memory_left(diagnosis), "meminfo, control group"),
    )  # fmt: skip
    return [Evidence(*one) for one in known if one[2] is not None]


def _relief(diagnosis: Diagnosis, shortage: Shortage) -> list[Proposal]:
    """Remedies that make room for dropped pages: the job uses less memory, or gets more."""
    read = shortage.job_read_bytes_per_s or 0.0
    again = min(1.0, (shortage.again_bytes_per_s or 0.0) / read) if read > 0 else 0.0
    kernel = shortage.system_share or 0.0
    half, stalls = Change(memory=0.5, storage=1 - again / 2), Change(memory=0.0, storage=1 - again)
    # the kernel's CPU is for pages that come and go
    best, scenario = replace(stalls, compute=1 - kernel, cpu=1 - kernel), given(diagnosis.scenario)
    return [priced(one, scenario, half, best, best, most=best) for one in (LET_GO, MORE_MEMORY)]


# pages-mapped-anew
LEFT = 0.05  # of the kernel's time: some of it is for other pages (chosen)
MAPPED_BYTES = 32 << 20  # of data files, from which faults may be theirs (chosen)
SOURCE = "getrusage"
HINT = 1.2  # a smaller predicted speedup is a hint, not a remedy (chosen, measured: pages/memory.md)
ALLOCATORS = ("MALLOC_", "GLIBC_", "LD_PRELOAD")  # variables that replace or set malloc
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
VARIABLES = " ".join(f"{name}={value}" for name, value in KEEP.items())
KEEP_FREED = Proposal(
    id="keep-freed-memory",
    title="let malloc keep freed memory, instead of mapping it anew in each step",
    fix=Fix("two variables of glibc's allocator, before the start", f"{VARIABLES} python train.py"),
    apply="env",
    risk="each process, workers too, stays as large as it once was",
    treatments=(Treatment(ENVIRONMENT, dict(KEEP)),),
)


@finding("host.memory", KEEP_FREED, needs=(steady_steps,))
def pages_mapped_anew(diagnosis: Diagnosis) -> Finding | None:
    """Fires when mapping pages takes a visible part of the step, or of making batches."""
    scenario, batch_s = given(diagnosis.scenario), _batch_s(diagnosis)
    cost_s = fmean(cost.paging for cost in scenario.costs)
    best, likely = (_without(scenario, batch_s, left) for left in (0.0, LEFT))
    gained = gain(scenario, likely)
    environment = known.environment if (known := switches(diagnosis)) is not None else {}
    if gained < WORTH or any(name.startswith(ALLOCATORS) for name in environment):
        return None
    evidence = _pages_evidence(diagnosis, cost_s, batch_s)
    cause = "input.preprocess" if gain(scenario, replace(best, paging=1.0)) >= WORTH else "model.compute"
    if diagnosis.verdict.cause == "host.memory" or cost_s >= NOTICED * diagnosis.step_s:
        cause = "host.memory"
    proposals = [replace(KEEP_FREED, change=likely)]
    data = readings(diagnosis.profile.series, "mapped_data_bytes")
    if gained < HINT:
        text = f"speedup that {VARIABLES}, set before the start, may bring"
        evidence.append(Evidence(text, "keep_freed_speedup", gained, "replay"))
        proposals = []
    elif max((value for _, value in data), default=0.0) > MAPPED_BYTES:
        half = _without(scenario, batch_s, MOST)
        proposals = [replace(priced(KEEP_FREED, scenario, half, likely, best, most=best), basis="bound")]
    return Finding("pages-mapped-anew", cause, evidence, proposals)


def _batch_s(diagnosis: Diagnosis) -> float:
    """Kernel seconds spent on mapping pages, per batch."""
    if diagnosis.inputs.minor_faults is None:
        return made_paging_s(diagnosis.steps) if diagnosis.without_loader is not None else 0.0
    payload, loader = payload_of(diagnosis), diagnosis.loader
    shared = payload is not None and loader is not None and loader.num_workers
    return fetched_paging_s(diagnosis.inputs, payload.tensor_bytes if payload and shared else 0.0)


def _without(scenario: Scenario, batch_s: float, left: float) -> Change:
    """The change that leaves ``left`` of the kernel's time for mapping pages."""
    making = fmean(work.cpu + work.collate for work in scenario.works) if scenario.works else 0.0
    share = min(1.0, batch_s / making) if making > 0 else 0.0
    rest = 1 - share * (1 - left)
    return Change(cpu=rest, collate=rest, paging=left)


def _pages_evidence(diagnosis: Diagnosis, cost_s: float, batch_s: float) -> list[Evidence]:
    inputs, step_s = diagnosis.inputs, diagnosis.step_s
    faults = [step.faults for step in diagnosis.steps if step.faults is not None]
    of_step = (
        ("share of the step in which the kernel maps pages", "paging_share", cost_s / step_s),
        ("pages newly mapped in a step", "minor_faults", fmean(faults) if faults else None),
    )
    of_batch = (
        ("share of a batch's CPU in which the kernel maps pages", "batch_paging_share",
         batch_s / max(inputs.cpu, 1e-12)),
        ("pages newly mapped for a batch", "batch_minor_faults", inputs.minor_faults),
    )  # fmt: skip
    known = of_step * (cost_s > TRIFLE * step_s) + of_batch * (batch_s > TRIFLE * inputs.cpu)
    return [Evidence(*one, SOURCE) for one in known if one[2] is not None]


# alloc-churn
ALLOC_DROP = Proposal(
    id="drop-empty-cache",
    title="leave freed device memory with the allocator",
    fix=Fix("dropping references is what frees memory", "# delete: torch.cuda.empty_cache()"),
    change=Change(allocating=0.0),
    apply="hook",
    risk="other processes on the device cannot use that memory",
    treatments=(Treatment("empty_cache"),),
)
EXPAND = Proposal(
    id="expandable-segments",
    title="let the allocator grow its blocks instead of looking for new ones",
    fix=Fix("before the start", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py"),
    basis="bound",
    apply="env",
    risk="does not help where memory is truly short; not on every platform",
    treatments=(Treatment(ENVIRONMENT, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}),),
)


@finding("device.memory", ALLOC_DROP, EXPAND, needs=(device_step,), device=True)
def alloc_churn(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when the allocator returns to the driver in steady state and the device idles for it."""
    scenario, allocator = given(diagnosis.scenario), given(diagnosis.device).facts.allocator
    idle = of_step(diagnosis, beat_of(diagnosis).memory_s)
    if idle < TRIFLE:
        return None
    if allocator is None or not allocator.steps:
        return "the allocator's counters in steady state"
    counts = allocator.device_allocs, allocator.retries, allocator.empty_cache_calls
    allocations, retries, emptied = (count / allocator.steps for count in counts)
    if max(allocations, retries) <= TRIFLE and not emptied:
        return None
    text = "share of the step in which the device idles for the allocator"
    again = "retries after giving cached blocks back, per step"
    evidence = [
        Evidence(text, "device_memory_share", idle, CLOCK),
        Evidence("allocations through the driver per step", "driver_allocations", allocations, ALLOCATOR),
        Evidence(again, "allocation_retries", retries, ALLOCATOR),
        Evidence("calls of empty_cache per step", "empty_cache_calls", emptied, "hook on empty_cache"),
    ]
    calls = [one for one in given(diagnosis.device).facts.syncs or [] if one.call == "empty_cache"]
    where = place(calls[0].file, calls[0].line) if calls else None
    proposal = ALLOC_DROP.at(where)
    if not emptied:
        proposal = priced(EXPAND, scenario, *each(allocating=PARTLY), most=Change(allocating=0.0))
    return Finding("alloc-churn", "device.memory", evidence, [proposal], where)


# gpu-memory-tradeoff
KEEP_ACTIVATIONS = Proposal(
    id="checkpointing-off",
    title="keep activations instead of computing them twice",
    fix=Fix(
        "call the blocks directly, all or as many as fit",
        "y = BLOCK(X)  # instead of torch.utils.checkpoint.checkpoint(BLOCK, X)\n"
        "gradient_checkpointing=False  # transformers' TrainingArguments",
    ),
    apply="hook",
    risk="memory rises by the activations that are kept",
    treatments=(Treatment("recompute"),),
)


@finding("device.compute", KEEP_ACTIVATIONS, needs=(device_step,), device=True)
def gpu_memory_tradeoff(diagnosis: Diagnosis) -> Finding | str | None:
    """Fires when activation checkpointing repeats forward work although device memory is free."""
    scenario, view = given(diagnosis.scenario), given(diagnosis.device)
    repeated, peak = view.facts.recompute_s, peak_share(view)
    if repeated is None or peak is None:
        return "device time of activation checkpointing, and the peak of the device's memory"
    share = of_step(diagnosis, repeated)
    if share < TRIFLE or peak >= MOST:
        return None
    evidence = [
        Evidence("share of the step in which forward work is repeated", "recompute_share", share, PROFILER),
        Evidence("peak of the device's memory", "device_peak_share", peak, ALLOCATOR),
    ]
    part = repeated / max(beat_of(diagnosis).busy_s, repeated)
    proposal = priced(KEEP_ACTIVATIONS, scenario, *each(device=left_of(part, WHOLLY)))
    return Finding("gpu-memory-tradeoff", "device.compute", evidence, [proposal])
