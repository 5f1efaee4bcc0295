"""Memory is too small for what the job keeps in it: what was thrown out comes back again and again.

## What it means
The machine, or the job's own memory limit, has no room left. The kernel drops pages of files or moves pages
to swap, and soon somebody needs them again. Or memory use grows with every step, and that lies ahead.

## Why it costs
A page in memory costs nothing; one that has to come back costs a read, while the thread that touched it
stands still. It hits the training loop as much as the loader: weights, tables and programs are pages too.

## How it is measured
Page-ins of what memory had held shortly before (`workingset_refault_file`), swap-ins, the kernel's memory
pressure, hits of the memory limit; major faults of the job outside of fetches; the private memory of its
processes, every two seconds.

## Thresholds
A fifth of a page per step waited for outside of fetches, and a third of the bytes read are read again, or 1
MiB/s of swap-ins, or 10 % of the time under memory pressure; or such pressure and a limit hit each second
(ours). Growth:
1 MiB per step in both halves of the steady window, in a line from which readings stray by less than a twelfth
of the rise, and memory full within a day (ours).

## When this advice is wrong
Strangers may be who fills the memory. A data set that fills a cache of its own in the first epoch grows and
then stops. Machine-wide pressure includes what others wait for.

## Prediction
Replay without the loop's stalls, the reads that are repeats, and most of the kernel's CPU, which goes into
finding room; at worst half of the stalls and reads remains and all of the CPU. Of growth alone nothing is
predicted: the factor is 1.

## References
The kernel's documentation: "PSI", "Concepts overview" (reclaim), cgroups v1 and v2 (memory); PyTorch issue
13246 on memory that grows in loader workers.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean, linear_regression, pstdev

from ..analyse.memory import Shortage, is_short, measure_shortage
from ..analyse.steps import span_of
from ..model.diagnosis import Abstention, BatchCost, Change, Diagnosis, Finding, Proposal, StepCost
from ..model.instruments import Series
from ..model.profile import Profile
from ..model.report import Evidence, Fix
from .parts.advice import NOTHING, memory_left, place_of, readings, spread
from .parts.entry import Case, Entry, given, patient, steady_steps

ID = "memory-pressure"
GROWTH_BYTES = 1 << 20  # of private memory per step [catalogue F19]
READINGS_AT_LEAST = 6  # of private memory in the steady window: three for each half (ours)
STRAIGHT = 12  # times as far as readings stray from a line, or a heap has only settled (ours)
DAY_S = 86_400.0  # growth that fills the memory later than this is not worth an alarm (ours)
RECLAIM = (0.7, 1.0)  # of the kernel's CPU in such a job is spent on pages that come and go (ours)
COUNTERS = "vmstat, task stat"

DROP = """\
del raw, table                           # large temporaries, before the loop
losses.append(loss.item())               # a number, not a tensor that holds its graph"""
LET_GO = Proposal(
    id="release-references",
    title="let go of memory that the training does not need",
    fix=Fix("drop what is not used again; smaller caches, fewer workers", DROP),
    effort="hours",
    risk="assumes that enough can be spared",
    basis="bound",
)
MORE_MEMORY = Proposal(
    id="more-ram",
    title="give the job more memory",
    fix=Fix(
        "raise the memory limit of the container, or take a larger machine",
        "docker run --memory=64g ...    # kubernetes: resources.limits.memory",
    ),
    apply="admin",
    basis="bound",
)
# Against memory that grows: nothing gets faster, but the run lives.
FIND_LEAK = Proposal(
    id="release-references",
    title="find what is kept from step to step, and let it go",
    fix=Fix("keep numbers, not tensors with their graphs", DROP),
    factor=NOTHING,
)
COLUMNS = Proposal(
    id="columnar-numpy",
    title="keep lists of paths and labels in arrays",
    fix=Fix(
        "each worker copies what it touches, and counting references touches",
        "self.paths = numpy.array(paths, dtype='S')     # one buffer instead of a million objects",
    ),
    factor=NOTHING,
    effort="hours",
)
SHARE_TABLE = Proposal(
    id="share-memory-tensor",
    title="share one copy of large tables with all workers",
    fix=Fix(
        "put the table into shared memory before workers start",
        "self.table = torch.from_numpy(table).share_memory_()     # before the workers start",
    ),
    factor=NOTHING,
    effort="hours",
)


def examine(diagnosis: Diagnosis) -> Finding | Abstention | None:
    """Fires when pages come back that were in memory before, or when memory will not last for a day."""
    begin, end = span_of(diagnosis.steps)
    shortage = measure_shortage(diagnosis.profile, diagnosis.inputs, begin, end, diagnosis.step_s)
    if shortage.again_bytes_per_s is None and shortage.stalled is None:
        return Abstention(ID, "the kernel's counters of page-ins and memory pressure")
    growth = growth_per_step(diagnosis)
    short, growing = is_short(shortage), growth >= GROWTH_BYTES and _lasts_s(diagnosis, growth) < DAY_S
    if not short and not growing:
        return None
    proposals = _relief(diagnosis, shortage) if short else []
    if growing:
        proposals.append(FIND_LEAK)
        if diagnosis.loader is not None and diagnosis.loader.num_workers:
            proposals += [one.at(place_of(diagnosis)) for one in (COLUMNS, SHARE_TABLE)]
    return Finding(ID, "host.memory", _evidence(diagnosis, shortage, growth), proposals, place_of(diagnosis))


def growth_per_step(diagnosis: Diagnosis) -> float:
    """Bytes of private memory that each step adds: of both halves of the steady window, the smaller."""
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


def _lasts_s(diagnosis: Diagnosis, growth: float) -> float:
    """Seconds until the memory is full at this growth; for ever, where its size is not known."""
    left = memory_left(diagnosis)
    return float("inf") if left is None else left / growth * diagnosis.step_s


def _evidence(diagnosis: Diagnosis, shortage: Shortage, growth: float) -> list[Evidence]:
    stall = fmean(cost.memory for cost in given(diagnosis.scenario).costs)
    known = (
        ("time per step that the loop waits for pages", "memory_stall_s", stall or None, "faults, pressure"),
        ("pages per step that the loop waited for", "loop_faults", shortage.loop_faults, COUNTERS),
        ("bytes per second read that memory had held before", "refault_bytes_per_s",
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
    """Room for what is needed again: from the job itself, or bought."""
    read = shortage.job_read_bytes_per_s or 0.0
    again = min(1.0, (shortage.again_bytes_per_s or 0.0) / read) if read > 0 else 0.0
    kernel = shortage.system_share or 0.0
    half, stalls = Change(memory=0.5, storage=1 - again / 2), Change(memory=0.0, storage=1 - again)
    likely, best = (replace(stalls, compute=1 - part * kernel, cpu=1 - part * kernel) for part in RECLAIM)
    factor = spread(given(diagnosis.scenario), half, likely, best)
    return [replace(one, factor=factor, most=factor[2]) for one in (LET_GO, MORE_MEMORY)]


TIMES = [float(second) for second in range(0, 41, 2)]


def _case(cost: StepCost, left: float = 1e9, **per_s: float) -> Diagnosis:
    """Forty seconds of steady steps; counters grow by so much per second."""
    base = patient(BatchCost(0.001), cost)
    values = {name: [t * value for t in TIMES] for name, value in per_s.items()}
    values["memory_available_bytes"] = [left for _ in TIMES]
    series = Series(TIMES, {name: list(column) for name, column in values.items()})
    steps = [replace(step, t=0.1 * place) for place, step in enumerate(base.steps)]
    return replace(base, steps=steps, profile=replace(base.profile, series=series))


def _settles() -> Diagnosis:
    """A gigabyte in forty seconds, of which most comes early and some is given back."""
    sick = _case(StepCost(0.01), refault_bytes=0.0, job_private_bytes=1.0)
    taken = [1e9 * (t / TIMES[-1]) ** 0.5 - 1e8 * (place % 3) for place, t in enumerate(TIMES)]
    series = replace(sick.profile.series, values={**sick.profile.series.values, "job_private_bytes": taken})
    return replace(sick, profile=replace(sick.profile, series=series))


def _unread() -> Diagnosis:
    well = patient(BatchCost(0.001), StepCost(0.01))
    return replace(well, profile=Profile(well.profile.run, well.profile.machine))


def cases() -> tuple[Case, ...]:
    """It fires, it stays silent, it abstains."""
    thrash = {"refault_bytes": 5e8, "job_read_bytes": 5e8, "pressure_io_some_s": 0.6,
              "job_major_faults": 500.0}  # fmt: skip
    stalled = StepCost(0.002, memory=0.008)
    return (
        Case("pages come back all the time", _case(stalled, **thrash), "fires", "release-references"),
        Case("it swaps", _case(stalled, swap_in_bytes=5e7, refault_bytes=0.0, job_major_faults=900.0),
             "fires", "more-ram"),
        Case("each step adds ten megabytes", _case(StepCost(0.01), refault_bytes=0.0, job_private_bytes=1e9),
             "fires"),
        Case("the heap settles", _settles(), "silent"),
        Case("so much each second that it lasts for weeks",
             _case(StepCost(0.01), 1e15, refault_bytes=0.0, job_private_bytes=1e9), "silent"),
        Case("strangers thrash", _case(StepCost(0.01), refault_bytes=5e8, job_major_faults=0.0), "silent"),
        Case("memory suffices", _case(StepCost(0.01), refault_bytes=0.0, job_major_faults=1.0), "silent"),
        Case("no counters", _unread(), "abstains"),
    )  # fmt: skip


FINDING = Entry(
    ID,
    "host.memory",
    examine,
    needs=(steady_steps,),
    remedies=(LET_GO, MORE_MEMORY, FIND_LEAK, COLUMNS, SHARE_TABLE),
)
