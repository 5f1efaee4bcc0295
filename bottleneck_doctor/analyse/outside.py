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
LOOPS = ("main ", "train ", "fit ", "run ")  # functions that hold loops are not what the loop calls (ours)
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
    work = _users_work(profile, outside.pid)
    within = work.data + work.other
    if within < SAMPLES_AT_LEAST:
        return Gap(1.0, 0.0, of_step, work.location)
    share = work.data / within
    spread = 1.65 * sqrt(share * (1 - share) / within)
    low, high = max(0.0, share - spread), min(1.0, share + spread)
    return Gap(share, low * of_step, high * of_step, work.location)


@dataclass(frozen=True)
class _Work:
    """Samples of the loop's thread outside of forward, backward and optimizer: in functions that the loop
    called, and in the loop's own lines or in clearing gradients; and the function seen most."""

    data: int
    other: int
    location: Location | None


def _users_work(profile: Profile, pid: int) -> _Work:
    heaviest: dict[str, int] = {}
    other = 0
    for stack in profile.stacks:
        if stack.pid == pid and stack.role == "trainer" and "Main" in stack.thread:
            name = _data_function(stack)
            if name:
                heaviest[name] = heaviest.get(name, 0) + stack.count
            elif name is not None or any("zero_grad" in frame for frame in stack.frames):
                other += stack.count
    best = max(heaviest, key=lambda name: heaviest[name], default="")
    return _Work(sum(heaviest.values()), other, parse_frame(best) if best else None)


def _data_function(stack: Stack) -> str | None:
    """The user's function that the loop called; "" in the loop's own lines; None in the training itself."""
    if any(mark in frame for frame in stack.frames for mark in TRAINING):
        return None
    start = next((place for place, frame in enumerate(stack.frames) if frame.startswith("<module>")), 0)
    below = [frame for frame in stack.frames[start + 1 :] if "/site-packages/" not in frame]
    below = [frame for frame in below if not frame.startswith(LOOPS)]
    return below[0] if below else ""


def parse_frame(frame: str) -> Location | None:
    """``function (file:line)`` as a location."""
    function, _, rest = frame.partition(" (")
    file, _, line = rest.rstrip(")").rpartition(":")
    return Location(file, int(line), function) if file and line.isdigit() else None
