"""Judges from stack samples how long the loop's thread waited for the interpreter's lock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ..model.code import Location
from ..model.diagnosis import Scenario
from ..model.instruments import Stack
from ..model.loops import Loop
from ..model.profile import Profile
from .hot_lines import users_line
from .loop_cpu import is_library
from .shares import LARGE_PART, NOTICED
from .steps import SAMPLES_AT_LEAST

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
    return LockWait(waited / total, min(1.0, waited / max(1, still)), busy, _busiest(others))


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


def _busiest(others: list[Stack]) -> Location | None:
    lines = Counter[Location]()
    for stack in others:
        line = users_line(stack)
        if line is not None:
            lines[line] += stack.running or 0
    return max(lines, key=lambda line: lines[line], default=None)
