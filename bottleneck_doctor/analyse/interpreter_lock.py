"""Judges from stack samples how long the loop's thread waited for the interpreter's lock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ..model.diagnosis import Scenario
from ..model.profile import Location, Loop, Profile, Stack
from .hot_lines import users_line

SAMPLES_AT_LEAST = 20  # of the loop's thread (ours)
OTHERS_RUN = 0.3  # of the time another Python thread is on a core, or nobody holds the lock (ours)
WORKS = 0.1  # of its samples found it running: a line that works, not one that sleeps (ours)
ASIDE = ("/torch/serialization.py", "/logging/", "/torch/utils/data/", "/selectors.py", "/threading.py")


@dataclass(frozen=True)
class LockWait:
    """``share`` of the loop's time; ``others`` how much of the time other threads of the process ran, mostly
    in ``location``."""

    share: float
    others: float
    location: Location | None


def lock_wait(profile: Profile, loop: Loop | None) -> LockWait | None:
    """None where it was not seen. In lines where the loop's thread sometimes runs, its other samples are
    waits: for a lock, where another Python thread is busy meanwhile."""
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
    if busy < OTHERS_RUN:
        return LockWait(0.0, busy, None)
    return LockWait(_waited(main) / total, busy, _busiest(others))


def held_by_lock(profile: Profile, loop: Loop | None, base: Scenario, step_s: float) -> Scenario:
    """Time without the lock is the interpreter's, not sleep; and another thread's CPU is not the model's."""
    seen = lock_wait(profile, loop)
    if seen is None or seen.share <= 0:
        return base
    idle = sum(turn.idle for turn in base.turns) / len(base.turns)
    share = min(1.0, seen.share * step_s / idle) if idle > 0 else 0.0
    turns = tuple(
        replace(turn, idle=turn.idle * (1 - share), python=turn.python + turn.idle * share)
        for turn in base.turns
    )
    beside = base.strangers + min(1.0, seen.others)  # it wants a core as strangers do
    return replace(base, turns=turns, threads=1.0, strangers=beside)


def _waited(main: list[Stack]) -> int:
    """Samples in working lines in which the thread did not run."""
    seen: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    for stack in main:
        if stack.frames and not any(mark in frame for frame in stack.frames for mark in ASIDE):
            seen[stack.frames[-1]] += stack.count
            ran[stack.frames[-1]] += stack.running or 0
    return sum(max(0, count - ran[line]) for line, count in seen.items() if ran[line] >= WORKS * count)


def _busiest(others: list[Stack]) -> Location | None:
    lines = Counter[Location]()
    for stack in others:
        line = users_line(stack)
        if line is not None:
            lines[line] += stack.running or 0
    return max(lines, key=lambda line: lines[line], default=None)
