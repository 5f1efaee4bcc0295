"""Splits the loop's own CPU time: Python between operators, the price of calling operators, computation.

One profiled step says how long the pauses between operators were and how many operators ran. A short pause,
and up to 5 us of each operator, is the price of calling; a long pause is Python at other work, as far as the
stacks of the loop's thread agree. What is not proven to be either stays computation.

How long the loop's thread waited for the interpreter's lock is judged from stack samples, at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace

from ..model.code import Location
from ..model.diagnosis import HostLoad, Scenario, Step
from ..model.instruments import Stack
from ..model.loops import Loop
from ..model.profile import DispatchBreakdown, Profile
from ..source import code
from ..source.files import users_path
from ..source.purpose import MEASURE, UNNEEDED, Purpose
from .attribution import TIMED, attribute, epoch_ends
from .device import facts_of
from .hot_lines import users_line
from .loop_parts import LoopSample, samples_in
from .shares import LARGE_PART, LITTLE, NEARLY_ALL, NOTICED
from .steps import SAMPLES_AT_LEAST, mean_in, seconds_in, steps_in

PROFILED_S = 0.9e-6  # what the profiler itself adds to each operator (chosen, measured: 0.85 to 0.95)
ALIKE = (0.5, 3.0)  # of a steady step's CPU; a profiled step with less or more is not like them (chosen)
ADDS_UP = 1.25  # times the profiled step's CPU at most, for its parts without time off a core (chosen)
CROWD = 500  # operators in a step, below which calling them is part of computing (chosen)


@dataclass(frozen=True)
class LoopCpuSplit:
    """Shares of the loop's own CPU time; what is left is computation."""

    python: float = 0.0
    launch: float = 0.0


TORCHS = re.compile(
    r"packages/torch/|/torch/(nn|optim|autograd|utils|_\w+)[/.]|torchinductor|/bottleneck_doctor/agent/"
)  # not a user's folder
NUMPYS, TENSORS = re.compile(r"\b(np|numpy)\."), re.compile(r"\b(torch|nn|F|functional)\.|tensor")
NOTHING = LoopCpuSplit()


def split_of(
    profile: Profile, loop: Loop | None, steps: list[Step], host: HostLoad, stored: float = 0.0
) -> LoopCpuSplit:
    """The split, or nothing where no step was profiled or where an accelerator makes clocks lie; ``stored``
    is the share of logging and checkpoint time in which the loop slept."""
    whole = own_cpu_s(steps, stored)
    if loop is None or host.accelerated or whole <= 0:
        return NOTHING
    ends = epoch_ends(profile, loop)
    between = min(1.0, ends.python * ends.share * ends.cpu * mean_in(steps) / whole)
    within = _split_within(profile, loop, (1 - between) * whole) if between < 1 else NOTHING
    return LoopCpuSplit(between + (1 - between) * within.python, (1 - between) * within.launch)


def _split_within(profile: Profile, loop: Loop, own: float) -> LoopCpuSplit:
    """The same of what lies within the steps, ``own`` seconds of CPU each."""
    anatomy, samples = anatomy_of(profile, loop), attribute(profile, loop).own
    if anatomy is not None:  # like the steady steps, and rarely enough without a core to be divided?
        least, most = ALIKE
        alike = least * own <= anatomy.cpu_s <= most * (own + PROFILED_S * anatomy.operators)
        divided_s = anatomy.own_s + anatomy.short_s + anatomy.long_s
        anatomy = anatomy if alike and divided_s <= ADDS_UP * anatomy.cpu_s else None
    if anatomy is None:
        return LoopCpuSplit(python=_in_python(profile, samples) or 0.0)
    priced, profiled_s = anatomy.own_s - anatomy.beyond_s, PROFILED_S * anatomy.operators
    pure = _pure_python(samples) * own
    python = max(pure, min(_long_s(profile, loop, anatomy, samples), witnessed(profile, loop) * own))
    # Freeing a graph of thousands of nodes is a long pause, too; and a single step has noise.
    noise = (NOTICED if samples_in(samples) >= SAMPLES_AT_LEAST else LARGE_PART) * own
    if not pure and (python < noise or anatomy.long_s < anatomy.short_s + priced - profiled_s):
        python = 0.0
    true = max(0.0, 1 - profiled_s / max(anatomy.own_s, 1e-12))
    measured, left_over = anatomy.short_s + priced * true, own - python - anatomy.beyond_s * true
    launch = min(max(measured, left_over, 0.0), anatomy.short_s + priced, own - python)
    if anatomy.operators < CROWD:
        launch = 0.0  # any small model consists of small operators: a few of them are no problem
    # Operators that are called by lines which nothing trained needs are no part of the model.
    apart = [one for one in samples if one.own and one.purpose.what in (MEASURE, UNNEEDED)]
    running, total = (sum(one.stack.running or 0 for one in some) for some in (apart, samples))
    measuring = min(max(0.0, launch), running / total * own) if total >= SAMPLES_AT_LEAST else 0.0
    return LoopCpuSplit((python + measuring) / own, max(0.0, launch - measuring) / own)


def anatomy_of(profile: Profile, loop: Loop | None) -> DispatchBreakdown | None:
    """The profiled step of the loop's process, time without a core taken off."""
    found = next((one for one in profile.computing.anatomies if loop and one.pid == loop.pid), None)
    return awake(found) if found is not None else None


def awake(anatomy: DispatchBreakdown) -> DispatchBreakdown:
    """The same step without the time that the thread slept or had no core.

    The instants are not recorded. Sleeps and slices without a core are longer than most operators, so the
    time is taken off the longest spans, the longest first.
    """
    left = max(0.0, anatomy.wall_s - anatomy.cpu_s)
    off = {"operators": 0.0, "pauses": 0.0, "calls": 0.0}
    spans = [(taken, kind) for kind in off for taken in getattr(anatomy, f"longest_{kind}_s")]
    for taken, kind in sorted(spans, reverse=True):
        part = min(taken, left)
        off[kind] += part
        left -= part
    return replace(
        anatomy,
        own_s=max(0.0, anatomy.own_s - off["operators"]),
        beyond_s=max(0.0, anatomy.beyond_s - off["operators"]),
        large_s=max(0.0, anatomy.large_s - off["operators"]),
        short_s=max(0.0, anatomy.short_s - off["calls"]),
        long_s=max(0.0, anatomy.long_s - off["pauses"]),
    )


def own_cpu_s(steps: list[Step], stored: float) -> float:
    """Mean CPU seconds per step of the loop's thread outside of the loader, hooked host work apart."""
    known = [(step.cpu, step) for step in steps if step.cpu is not None]
    count = sum(step.steps for _, step in known)
    total = sum(max(0.0, cpu - host_cpu_s(step, stored, step.collect)) * step.steps for cpu, step in known)
    return total / count if count else 0.0


def host_cpu_s(step: Step, stored: float, collect_s: float) -> float:
    """CPU seconds of a step's host work other than training: writing, without its sleep, and collection."""
    return (1 - stored) * (step.checkpoint + step.logging) + collect_s


def _long_s(profile: Profile, loop: Loop, anatomy: DispatchBreakdown, samples: list[LoopSample]) -> float:
    """Long pauses on the CPU: what hooks saw inside the window, or stacks of logging, is taken off."""
    windows = [one for one in profile.windows if one.instrument == "torch.profiler"]
    hooked = sum(
        max(0.0, min(t + taken, window.end_s) - max(t, window.start_s))
        for one in profile.operations
        if (one.pid, one.thread) == (loop.pid, loop.thread)
        for t, taken in one.events
        for window in windows
    )
    written = samples_in(one for one in samples if one.logs) / max(samples_in(samples), 1)
    return max(0.0, anatomy.long_s - max(hooked, written * anatomy.cpu_s))


def witnessed(profile: Profile, loop: Loop) -> float:
    """The upper bound of Python's share of the loop's own CPU by its stacks; 1 without stacks.

    Compiled code runs no operators that the profiler sees: there, without stacks, it is 0.
    """
    samples = attribute(profile, loop).own
    held = _in_python(profile, samples)
    if held is not None:
        return held
    compiled = any(one.pid == loop.pid for one in profile.computing.compilations)
    total = samples_in(samples)
    if total < SAMPLES_AT_LEAST:
        return 0.0 if compiled else 1.0
    return samples_in(one for one in samples if not is_library(one.stack.frames[-1]) and not one.logs) / total


def _in_python(profile: Profile, samples: list[LoopSample]) -> float | None:
    """The share of the loop's own CPU in which it held the interpreter's lock in code that is not torch's:
    operators let the lock go, as NumPy does. None where that was not seen, or too rarely."""
    samples = [one for one in samples if one.stack.holding is not None]
    running = sum(one.stack.running or 0 for one in samples)
    if running < SAMPLES_AT_LEAST:
        return None
    python = [one.stack for one in samples if not is_library(one.stack.frames[-1]) and not one.logs]
    held = sum((stack.running if _is_numpys(profile, stack) else stack.holding) or 0 for stack in python)
    share = min(1.0, held / running)
    return share if share >= NOTICED else 0.0


def _pure_python(samples: list[LoopSample]) -> float:
    """The share of the loop's own CPU in lines that hold the interpreter's lock nearly all of the time: those
    that call operators, however small, let it go again and again."""
    lines: dict[str, list[Stack]] = {}
    samples = [one for one in samples if one.stack.holding is not None]
    for one in samples:
        if not is_library(one.stack.frames[-1]) and not one.logs:
            lines.setdefault(one.stack.frames[-1], []).append(one.stack)
    total = sum(one.stack.running or 0 for one in samples)
    if total < SAMPLES_AT_LEAST:
        return 0.0
    found = 0
    for group in lines.values():
        running, holding = sum(one.running or 0 for one in group), sum(one.holding or 0 for one in group)
        if holding >= NEARLY_ALL * running:
            found += min(running, holding)
    return found / total if found >= NOTICED * total else 0.0


def _is_numpys(profile: Profile, stack: Stack) -> bool:
    """Whether the user's innermost function computes with NumPy and does not mention torch."""
    place = next(reversed(users_path(stack.frames)), None)
    source = code.source_at(profile.sources, place) if place is not None else None
    return source is not None and NUMPYS.search(source.text) is not None and not TENSORS.search(source.text)


def is_library(frame: str) -> bool:
    """Whether a frame is torch's, code that it generated, or bdoc's."""
    return TORCHS.search(frame) is not None


@dataclass(frozen=True)
class Logged:
    """The share of the loop's samples, outside of its loaders, in what is written out; most of it is
    ``purpose``, and in the part ``asleep`` of it the loop slept."""

    share: float = 0.0
    samples: int = 0
    purpose: Purpose | None = None
    asleep: float = 0.0


def logged(profile: Profile, loop: Loop | None) -> Logged:
    """What the loop writes, by its stack samples; nothing where these are too few or rarely in it."""
    seen = attribute(profile, loop)
    total, writing = samples_in(seen.own), [one for one in seen.own if one.label == "logging"]
    count = samples_in(writing)
    if total < SAMPLES_AT_LEAST or count < LITTLE * total:
        return Logged()
    found: Counter[Purpose] = Counter()
    asleep = 0
    for one in writing:
        found[one.purpose] += one.stack.count
        asleep += max(0, one.stack.count - one.stack.running) if one.stack.running is not None else 0
    return Logged(count / total, count, found.most_common(1)[0][0], asleep / count)


def with_written(profile: Profile, loop: Loop | None, steps: list[Step]) -> list[Step]:
    """The steps with what stacks say of logging and saving called that, in place of the rest that nothing
    explains; a line that logs a loss waits in it for kernels, whose time is none of these."""
    samples = [one for one in attribute(profile, loop).own if one.part not in TIMED]
    total, saved = samples_in(samples), samples_in(one for one in samples if one.part == "checkpoint")
    window = facts_of(profile, loop).window
    room = seconds_in(steps) - steps_in(steps) * (window.busy_s if window is not None else 0.0)
    steps = _moved(steps, "logging", logged(profile, loop).samples / max(total, 1), room)
    return _moved(steps, "checkpoint", saved / total if saved >= SAMPLES_AT_LEAST else 0.0, room)


def _moved(steps: list[Step], part: str, share: float, room: float) -> list[Step]:
    """The steps with such a share of what no other hook times in a part, as far as its own did not see it;
    ``room`` seconds at most.

    Sampling stacks takes a core, and threads that compute together wait for it: parts that compute have
    more samples than time. Hooks time some of them."""
    rest, hooked = seconds_in(steps, "compute"), seconds_in(steps, part)
    more = min(1.0, max(0.0, min(share * (rest + hooked), room) - hooked) / rest) if rest > 0 else 0.0
    if not more:
        return steps
    return [
        replace(step, compute=(1 - more) * step.compute, **{part: getattr(step, part) + more * step.compute})
        for step in steps
    ]


NEAR = 3  # innermost frames that show what a thread waits for: a wait calls little (chosen)
ASIDE = (
    "/torch/serialization.py", "/logging/", "/torch/distributed/", "/selectors.py", "/threading.py",
    "/queue.py", "/multiprocessing/",
)  # fmt: skip


@dataclass(frozen=True)
class LockWait:
    """``share`` of the loop's time, ``asleep`` of the time in which it did not run; ``others`` how much of
    the time other threads of the process ran, mostly in ``location``."""

    share: float
    asleep: float
    others: float
    location: Location | None


def lock_wait(profile: Profile, loop: Loop | None) -> LockWait | None:
    """The loop's wait for the lock; None without samples of thread states. Samples off a core, in lines where
    the thread sometimes runs, are waits: for the lock, if another Python thread is busy."""
    if loop is None or loop.thread != 0:
        return None
    mine = [one for one in profile.stacks if one.pid == loop.pid and one.role == "trainer"]
    if not any(one.running is not None for one in mine):
        return None
    main = [one for one in mine if one.thread.startswith("MainThread")]
    total = sum(one.count for one in main)
    if total < SAMPLES_AT_LEAST:
        return None
    others = [one for one in mine if not one.thread.startswith("MainThread")]
    busy = sum(one.running or 0 for one in others) / total
    if busy < LARGE_PART:
        return LockWait(0.0, 0.0, busy, None)
    waited, still = _waited(main), sum(max(0, one.count - (one.running or 0)) for one in main)
    lines = Counter[Location]()
    for one in others:
        if (line := users_line(one)) is not None:
            lines[line] += one.running or 0
    busiest = max(lines, key=lines.__getitem__, default=None)
    return LockWait(waited / total, min(1.0, waited / max(1, still)), busy, busiest)


def background(profile: Profile, loop: Loop | None, workers: int) -> float:
    """Cores used by other Python threads of a process that fetches for itself, between fetches too."""
    seen = lock_wait(profile, loop) if workers == 0 else None
    return seen.others if seen is not None and seen.share > 0 else 0.0


def held_by_lock(profile: Profile, loop: Loop | None, base: Scenario) -> Scenario:
    """The scenario with waits for the lock as Python time instead of sleep or, where threads feed the loop,
    as their delay of it; another thread's CPU is not the model's.

    Where the loop fetches for itself, unexplained sleep inside of fetches is treated alike.
    """
    seen = lock_wait(profile, loop)
    if seen is None or seen.share <= 0:
        return base
    alone = base.workers == 0
    asleep = sum(work.wait for work in base.works) / len(base.works) if alone and base.works else 0.0
    share = seen.asleep
    waits, makers = [(cost.idle + asleep) * share for cost in base.costs], base.feeders.count
    costs = tuple(
        replace(cost, idle=cost.idle * (1 - share), python=cost.python + (0.0 if makers else wait))
        for cost, wait in zip(base.costs, waits, strict=True)
    )
    works = tuple(replace(work, wait=work.wait * (1 - share)) for work in base.works) if alone else base.works
    busy = min(1.0, seen.others)
    # Logging that sleeps waits for the thread that writes, not for a disk.
    stored = base.shares.stored * (1 - busy)
    foreign = base.strangers + busy  # it wants a core as other processes do
    crowded = sum(waits) / len(waits) if makers else 0.0
    return replace(
        base,
        costs=costs,
        works=works,
        threads=1.0,
        strangers=foreign,
        shares=replace(base.shares, stored=stored),
        crowded=crowded,
    )


def _waited(main: list[Stack]) -> int:
    """Samples in which the thread did not run, in lines that work: found running now and then, or inside
    torch's operators, which never sleep on a CPU."""
    seen: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for stack in main:
        if stack.frames and not any(mark in frame for frame in stack.frames[-NEAR:] for mark in ASIDE):
            seen[stack.frames[-1]] += stack.count
            ran[stack.frames[-1]] += stack.running or 0
    working = (line for line, count in seen.items() if ran[line] >= NOTICED * count or is_library(line))
    return sum(max(0, seen[line] - ran[line]) for line in working)
