"""Names the user's own lines in which batches are made, from stack samples of the threads that make them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from ..model.code import Location
from ..model.diagnosis import Inputs
from ..model.instruments import Stack
from ..model.loops import Loader, Outside
from ..model.profile import Profile
from .feeders import find_feeders
from .loop_parts import parse_frame
from .outside import gap_stacks

FETCH = "torch/utils/data/_utils/fetch.py:"
LIBRARY = re.compile(
    r"/(?:site|dist)-packages/([^/:]+)|/lib/python3\.\d+t?/(?!(?:site|dist)-packages/)([^/:]+)"
    r"|/(bottleneck_doctor)/agent/"
)
OURS = "bottleneck_doctor"
SAMPLES_AT_LEAST = 20  # below which a share is a guess: 90 % intervals are then wider than 0.18 (ours)
MOST = 0.5  # of the samples: the deepest line that still holds as much is the one to look at (ours)
# Parts of a library that belong to another one that people know.
KNOWN_AS = {"_compression": "gzip, bz2 or lzma", "sre_compile": "re", "sre_parse": "re", "zipfile": "zip"}


@dataclass(frozen=True)
class LineShare:
    """A line of the user's: the shares of the making of batches, and of the CPU for it, that pass in it or
    below it. ``cpu_share`` is None where nobody saw which threads slept."""

    location: Location
    share: float
    cpu_share: float | None = None


@dataclass(frozen=True)
class HotLines:
    """``samples`` of threads that were making batches, waiting included; the lines, largest share first.

    ``hottest`` is the deepest line that holds half of them, else the one that holds most; ``library`` is
    what that line was mostly inside of, "" for the line itself.
    """

    samples: int = 0
    running: int = 0
    lines: list[LineShare] = field(default_factory=list)
    hottest: LineShare | None = None
    library: str = ""


def hot_lines(profile: Profile, loader: Loader | None, outside: Outside | None = None) -> HotLines:
    """Total: too few samples give no lines. A loop that makes its batches with a function of its own is an
    ``outside``."""
    if loader is not None and loader.kind == "dataloader":
        below = (_within_fetch(profile, loader, stack) for stack in profile.stacks)
        return _judge([stack for stack in below if stack.frames])
    if outside is None:
        return HotLines()
    return _judge(list(find_feeders(profile, outside.pid).stacks) or gap_stacks(profile, outside))


def least_cpu_share(line: LineShare, inputs: Inputs) -> float:
    """The share of a batch's CPU that a line has. Where nobody saw who slept, the least that it can have:
    all the sleep that the kernel's books know of is charged to the line."""
    if line.cpu_share is not None:
        return line.cpu_share
    asleep = inputs.storage + inputs.network + inputs.wait
    return max(0.0, line.share * (inputs.cpu + asleep) - asleep) / inputs.cpu if inputs.cpu > 0 else 0.0


def _within_fetch(profile: Profile, loader: Loader, stack: Stack) -> Stack:
    """Cut to the frames below torch's fetch, for threads that fetch for this loader; else without any."""
    mine = {one.pid for one in profile.processes if one.loader == loader.key and one.role == "worker"}
    fetches = stack.role == "worker" if loader.num_workers else stack.pid == loader.pid
    if not fetches or (loader.num_workers and mine and stack.pid not in mine):
        return replace(stack, frames=[])
    places = [place for place, frame in enumerate(stack.frames) if FETCH in frame]
    return replace(stack, frames=stack.frames[places[-1] + 1 :] if places else [])


def _judge(stacks: list[Stack]) -> HotLines:
    total = sum(stack.count for stack in stacks)
    awake = sum(stack.running or 0 for stack in stacks)
    if total < SAMPLES_AT_LEAST:
        return HotLines(total, awake)
    seen: dict[str, list[tuple[int, Stack]]] = {}  # line -> (place in the path, path)
    for stack in stacks:
        for place, frame in _users(stack.frames):
            seen.setdefault(frame, []).append((place, stack))
    lines = {frame: line for frame, paths in seen.items() if (line := _line(frame, paths, total, awake))}
    if not lines:
        return HotLines(total, awake)
    most = [frame for frame, line in lines.items() if line.share >= MOST]
    chosen = max(most, key=lambda frame: _depth(seen[frame]), default="")
    chosen = chosen or max(lines, key=lambda frame: lines[frame].share)
    ranked = sorted(lines.values(), key=lambda line: -line.share)
    return HotLines(total, awake, ranked, lines[chosen], _mostly_inside(seen[chosen]))


def _line(frame: str, paths: list[tuple[int, Stack]], total: int, awake: int) -> LineShare | None:
    location = parse_frame(frame)
    if location is None:
        return None
    running = sum(stack.running or 0 for _, stack in paths) / awake if awake >= SAMPLES_AT_LEAST else None
    return LineShare(location, sum(stack.count for _, stack in paths) / total, running)


def _depth(paths: list[tuple[int, Stack]]) -> float:
    count = sum(stack.count for _, stack in paths)
    return sum(place * stack.count for place, stack in paths) / max(1, count)


def _mostly_inside(paths: list[tuple[int, Stack]]) -> str:
    found: Counter[str] = Counter()
    for place, stack in paths:
        found[_library(stack.frames, place)] += stack.count
    name = found.most_common(1)[0][0]
    return KNOWN_AS.get(name, name)


def users_line(stack: Stack) -> Location | None:
    """The user's innermost line of one call path."""
    found = _users(stack.frames)
    return parse_frame(found[-1][1]) if found else None


def _users(path: list[str]) -> list[tuple[int, str]]:
    """The user's frames with their places, each line once: a comprehension stands on its caller's."""
    found: dict[str, tuple[int, str]] = {}
    for place, frame in enumerate(path):
        if LIBRARY.search(frame) is None and "<frozen" not in frame:
            line = frame.rpartition(" (")[2]
            first = found[line][1] if line in found else frame
            found[line] = (place, first)
    return list(found.values())


def _library(path: list[str], place: int) -> str:
    """The package of the first frame below the user's that is not the user's; "" where there is none."""
    for frame in path[place + 1 :]:
        match = LIBRARY.search(frame)
        name = next((one for one in match.groups() if one), "") if match is not None else ""
        if name and name != OURS:
            return name.removesuffix(".py")
    return ""
