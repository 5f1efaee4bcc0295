"""Judges the gap between an optimizer step and the next forward pass of a loop that uses no loader."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from ..model.profile import Location, Outside, Profile, Stack

# Frames that are the training itself, by file or function: what remains is the user's own work.
TRAINING = (
    "/torch/nn/modules/module.py",
    "/torch/autograd/",
    "/torch/optim/",
    "/torch/_tensor.py",
    "/torch/nn/functional.py",
)
SAMPLES_AT_LEAST = 20


@dataclass(frozen=True)
class Gap:
    """The share of the gap that gets a batch, its interval as shares of the whole step, and who does it."""

    share: float
    low: float
    high: float
    location: Location | None


def judge_gap(profile: Profile, outside: Outside) -> Gap:
    """Split the gap by what it was seen doing. Without stacks it is all taken, and the interval says so."""
    wall, gap = sum(outside.wall_s), sum(outside.gap_s)
    of_step = min(1.0, gap / wall) if wall > 0 else 0.0
    prefetched = any(loop.role == "prefetch" and loop.pid == outside.pid for loop in profile.loops)
    if prefetched:  # the loop blocks on a background thread: what is not CPU in the gap is waiting for it
        cpu = sum(outside.gap_cpu_s) + sum(outside.gap_runq_s)
        share = max(0.0, 1 - cpu / gap) if gap > 0 else 0.0
        return Gap(share, share * of_step, of_step, None)
    seen, total, location = _users_work(profile, outside.pid)
    if total < SAMPLES_AT_LEAST:
        return Gap(1.0, 0.0, of_step, location)
    mine = seen / total
    spread = 1.65 * sqrt(mine * (1 - mine) / total)
    share = min(1.0, mine / of_step) if of_step > 0 else 0.0
    return Gap(share, max(0.0, share * of_step - spread), min(1.0, share * of_step + spread), location)


def _users_work(profile: Profile, pid: int) -> tuple[int, int, Location | None]:
    """(samples in the user's functions outside forward, backward and optimizer, all samples, heaviest)."""
    stacks = [
        stack
        for stack in profile.stacks
        if stack.pid == pid and stack.role == "trainer" and "Main" in stack.thread
    ]
    total = sum(stack.count for stack in stacks)
    heaviest: dict[str, int] = {}
    for stack in stacks:
        name = _data_function(stack)
        if name:
            heaviest[name] = heaviest.get(name, 0) + stack.count
    best = max(heaviest, key=lambda name: heaviest[name], default="")
    return sum(heaviest.values()), total, parse_frame(best) if best else None


def _data_function(stack: Stack) -> str:
    """The user's function that the loop called, when the sample is not in the training itself."""
    if any(mark in frame for frame in stack.frames for mark in TRAINING):
        return ""
    loop_depth = next((place for place, frame in enumerate(stack.frames) if frame.startswith("<module>")), 0)
    below = [frame for frame in stack.frames[loop_depth + 1 :] if "/site-packages/" not in frame]
    below = [frame for frame in below if not frame.startswith(("main ", "train ", "fit ", "run "))]
    return below[0] if below else ""


def parse_frame(frame: str) -> Location | None:
    """``function (file:line)`` as a location."""
    function, _, rest = frame.partition(" (")
    file, _, line = rest.rstrip(")").rpartition(":")
    return Location(file, int(line), function) if file and line.isdigit() else None
