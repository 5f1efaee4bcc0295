"""Judges the gap between an optimizer step and the next forward pass of a loop that uses no loader."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
AWAKE = 0.8  # of the gap on the CPU: whatever is called in it is then seen running (ours)
ASLEEP = 0.2  # of its samples found it running: a function that sleeps (ours)


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
    work = _users_work(profile, outside)
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


def _users_work(profile: Profile, outside: Outside) -> _Work:
    other = 0
    called = _called(profile.stacks, outside)
    heaviest = {name: sum(stack.count for stack in seen) for name, seen in called.items()}
    trained = _trained_lines(profile.stacks, outside.pid)
    for stack in _of_loop(profile.stacks, outside.pid):
        name = _data_function(stack, trained)
        if name == "" or (name is None and any("zero_grad" in frame for frame in stack.frames)):
            other += stack.count
    best = max(heaviest, key=lambda name: heaviest[name], default="")
    return _Work(sum(heaviest.values()), other, parse_frame(best) if best else None)


def gap_stacks(profile: Profile, outside: Outside) -> list[Stack]:
    """What the loop's thread did in the gap, cut to the functions that the loop called."""
    return [
        replace(stack, frames=stack.frames[stack.frames.index(name) :])
        for name, seen in _called(profile.stacks, outside).items()
        for stack in seen
    ]


def _called(stacks: list[Stack], outside: Outside) -> dict[str, list[Stack]]:
    """The functions that the loop called in the gap. Where the gap passes on the CPU, one that sleeps is not
    called there: it stands for a device, or for a wait, in the middle of the training."""
    called: dict[str, list[Stack]] = {}
    trained = _trained_lines(stacks, outside.pid)
    for stack in _of_loop(stacks, outside.pid):
        name = _data_function(stack, trained)
        if name:
            called.setdefault(name, []).append(stack)
    busy = sum(outside.gap_cpu_s) >= AWAKE * sum(outside.gap_s)
    return {name: seen for name, seen in called.items() if not (busy and _sleeps(seen))}


def _sleeps(stacks: list[Stack]) -> bool:
    awake = sum(stack.running or 0 for stack in stacks)
    known = any(stack.running is not None for stack in stacks)
    return known and awake < ASLEEP * sum(stack.count for stack in stacks)


def _of_loop(stacks: list[Stack], pid: int) -> list[Stack]:
    return [one for one in stacks if one.pid == pid and one.role == "trainer" and "Main" in one.thread]


def _trained_lines(stacks: list[Stack], pid: int) -> dict[str, tuple[int, int]]:
    """Loop function -> its first and last line seen in forward, backward or optimizer, zero_grad apart.

    The gap lies around these lines; what the loop calls between them belongs to the training itself.
    """
    found: dict[str, tuple[int, int]] = {}
    for stack in _of_loop(stacks, pid):
        frames = stack.frames
        trains = next((n for n, frame in enumerate(frames) if any(mark in frame for mark in TRAINING)), 0)
        loop = _loop_frame(frames[:trains])
        if loop is not None and not any("zero_grad" in frame for frame in frames):
            first, last = found.get(_name_of(loop), (loop.line, loop.line))
            found[_name_of(loop)] = (min(first, loop.line), max(last, loop.line))
    return found


def _loop_frame(frames: list[str]) -> Location | None:
    """The innermost function that may hold the loop."""
    loops = [frame for frame in frames if frame.startswith((*LOOPS, "<module>"))]
    return parse_frame(loops[-1]) if loops else None


def _name_of(loop: Location) -> str:
    return f"{loop.function} {loop.file}"


def _data_function(stack: Stack, trained: dict[str, tuple[int, int]]) -> str | None:
    """The user's function that the loop called in the gap; "" in the loop's own lines; None in training."""
    if any(mark in frame for frame in stack.frames for mark in TRAINING):
        return None
    start = next((place for place, frame in enumerate(stack.frames) if frame.startswith("<module>")), 0)
    below = [frame for frame in stack.frames[start + 1 :] if "/site-packages/" not in frame]
    below = [frame for frame in below if not frame.startswith(LOOPS)]
    loop = _loop_frame(stack.frames)
    if loop is not None and below:
        first, last = trained.get(_name_of(loop), (loop.line, loop.line))
        if first < loop.line < last:
            return None
    return below[0] if below else ""


def parse_frame(frame: str) -> Location | None:
    """``function (file:line)`` as a location."""
    function, _, rest = frame.partition(" (")
    file, _, line = rest.rstrip(")").rpartition(":")
    return Location(file, int(line), function) if file and line.isdigit() else None
