"""Which functions and lines threads were in: the loop's, the workers', and where batches are made."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from ..model.code import Location
from ..model.derived import HotFunction, HotOperator
from ..model.diagnosis import Inputs
from ..model.instruments import Operator, Stack
from ..model.loops import Loader, Loop
from ..model.profile import Profile
from ..source.frames import is_ours, is_queued, is_users, parse_frame
from .loop_without_loader import gap_stacks
from .shares import LARGE_PART, MOST, NOTICED
from .steps import SAMPLES_AT_LEAST

LISTED = 20  # of each role's own and of its library functions: a readable list of bounded size
LEAST = 0.005  # of the samples, below which a function is noise at the few hundred that a window takes

Key = tuple[str, str]  # function, file


@dataclass
class SampleCounts:
    """Samples of one role, counted by function."""

    samples: int = 0
    own: Counter[Key] = field(default_factory=Counter)
    total: Counter[Key] = field(default_factory=Counter)
    lines: dict[Key, Counter[int]] = field(default_factory=dict)
    users: set[Key] = field(default_factory=set)
    looked: Counter[Key] = field(default_factory=Counter)  # own samples, where thread states were sampled
    awake: Counter[Key] = field(default_factory=Counter)


def hot_functions(profile: Profile) -> list[HotFunction]:
    """The user's functions first, then those of libraries; each by what it took itself."""
    found = []
    for role in ("trainer", "worker"):
        tally = SampleCounts()
        for stack in profile.stacks:
            if role_of(profile, stack) == role:
                _count(tally, stack)
        found += _listed(tally, role)
    return sorted(found, key=lambda one: (not one.users, -one.own_share, -one.total_share, one.function))


def role_of(profile: Profile, stack: Stack) -> str:
    """Whose samples these are: a training thread's (trainer), a loader worker's (worker), or others' (other),
    as those of feeder threads, of launchers and of servers."""
    if "Main" not in stack.thread:
        return "other"
    if stack.role == "worker":
        return "worker"
    trains = {loop.pid for loop in profile.loops if loop.role == "train"}
    return "trainer" if stack.pid in trains | {one.pid for one in profile.outside} else "other"


def _count(tally: SampleCounts, stack: Stack) -> None:
    tally.samples += stack.count
    places = [place for place in map(parse_frame, stack.frames) if place is not None]
    places = [place for place in places if not is_ours(place.file)]
    for place in places:
        lines = tally.lines.setdefault((place.function, place.file), Counter())
        lines[place.line] += stack.count
    for key in {(place.function, place.file) for place in places}:
        tally.total[key] += stack.count
    users = [(place.function, place.file) for place in places if is_users(place.file)]
    tally.users.update(users)
    own = users[-1:]
    if places and not is_users(places[-1].file):
        own.append((places[-1].function, places[-1].file))
    for key in own:
        tally.own[key] += stack.count
        if stack.running is not None:
            tally.looked[key] += stack.count
            tally.awake[key] += stack.running


def _listed(tally: SampleCounts, role: str) -> list[HotFunction]:
    if not tally.samples:  # stacks that only the samples of awake threads contain
        return []
    found = [_function(tally, key, role) for key, _ in tally.own.most_common()]
    found = [one for one in found if one.own_share >= LEAST]
    own = [one for one in found if one.users]
    return own[:LISTED] + [one for one in found if not one.users][:LISTED]


def _function(tally: SampleCounts, key: Key, role: str) -> HotFunction:
    function, file = key
    (line, _), *_ = tally.lines[key].most_common(1)
    looked = tally.looked[key]  # taken at other instants than the samples: chance may make it a little more
    return HotFunction(
        function=function,
        location=Location(file, line, function),
        role=role,
        users=key in tally.users,
        own_share=tally.own[key] / tally.samples,
        total_share=tally.total[key] / tally.samples,
        n=tally.samples,
        on_cpu_share=min(1.0, tally.awake[key] / looked) if looked >= SAMPLES_AT_LEAST else None,
    )


def hot_operators(profile: Profile) -> list[HotOperator]:
    """The profiled step's operators, the dearest first: by the accelerator's time where it computed them."""
    device = any(one.self_device_s for one in profile.operators)

    def cost(one: Operator | HotOperator) -> float:
        return one.self_device_s if device else one.self_cpu_s

    whole = sum(map(cost, profile.operators)) or 1.0
    found = [
        HotOperator(one.name, one.calls, one.self_cpu_s, one.self_device_s, cost(one) / whole)
        for one in profile.operators
    ]
    return sorted(found, key=lambda one: (-cost(one), one.name))[: 2 * LISTED]


POOLS = ("/multiprocessing/", "/concurrent/futures/")  # a forked process also shows its parent's frames
WRITERS = ("/torch/serialization.py", "/safetensors/", "/tensorboard/", "/logging/")
SENDS = re.compile(r"(\w+\.)?(put|send|send_bytes|dumps|_sendback_result) \(.*/(multiprocessing|concurrent)/")
PUTS = re.compile(r"(\w+\.)?put \(.*/queues?\.py:")


@dataclass(frozen=True)
class Feeders:
    """``count`` of them keep ``cores`` busy together; ``asleep`` others are threads that mostly sleep while
    they make batches that the loop waits for. ``stacks`` are the samples of all, from the first line of the
    user's own on, without those of batches that wait for room. ``sending`` is the share of a pool's time at
    work in which it hands batches over."""

    count: int = 0
    asleep: int = 0
    cores: float = 0.0
    sending: float = 0.0
    stacks: tuple[Stack, ...] = ()


NOBODY = Feeders()


def find_feeders(profile: Profile, pid: int) -> Feeders:
    """Of the training process ``pid``; none where thread states were not sampled."""
    pools = _below(profile, pid)
    main = [one for one in profile.stacks if one.pid == pid and "Main" in one.thread]
    looks = sum(one.count for one in main)
    if looks < SAMPLES_AT_LEAST:
        return NOBODY
    seen: dict[tuple[int, str], list[Stack]] = {}
    for one in profile.stacks:
        if one.pid in pools or (one.pid == pid and "Main" not in one.thread):
            seen.setdefault((one.pid, one.thread), []).append(one)
    busy = {key: sum(one.running or 0 for one in stacks) / looks for key, stacks in seen.items()}
    found = [key for key, share in busy.items() if share >= LARGE_PART and _feeds(seen[key])]
    asleep = []
    if sum(one.count for one in main if is_queued(one.frames)) >= NOTICED * looks:
        others = [key for key in seen if key[0] == pid and key not in found]
        asleep = [key for key in others if _makes(seen[key], looks)]
    return Feeders(
        count=len(found),
        asleep=len(asleep),
        cores=sum(min(1.0, busy[key]) for key in found),
        sending=_sending([one for one in profile.stacks if one.pid in pools]),
        stacks=tuple(
            replace(one, frames=path)
            for key in found + asleep
            for one in seen[key]
            if (path := _making(one)) and not any(map(PUTS.match, path))
        ),
    )


def _below(profile: Profile, pid: int) -> set[int]:
    """Processes that ``pid`` started, itself or through a fork server, no loader's workers."""
    found, newest = set[int](), {pid}
    while newest:
        newest = {one.pid for one in profile.processes if one.ppid in newest and not one.loader} - found
        found |= newest
    return found


def _sending(stacks: list[Stack]) -> float:
    """Pickling what was made, and waiting until the pipe has taken it; a pool that waits for work is idle."""
    sends = sum(one.count for one in stacks if _is_sending(one))
    makes = sum(one.count for one in stacks if _making(one))
    return sends / (sends + makes) if sends + makes >= SAMPLES_AT_LEAST else 0.0


def _feeds(stacks: list[Stack]) -> bool:
    """Whether a thread mostly runs the user's code or sends its results, and writes nothing."""
    makes = [
        one.running or 0
        for one in stacks
        if (_making(one) or _is_sending(one)) and not any(map(_writes, one.frames))
    ]
    return sum(makes) > MOST * sum(one.running or 0 for one in stacks)


def _makes(stacks: list[Stack], looks: int) -> bool:
    """Whether a thread is mostly below the user's lines, writes nothing, and is not ahead of the loop."""
    makes = [one for one in stacks if _making(one) and not is_queued(one.frames)]
    return not any(_writes(frame) for one in makes for frame in one.frames) and (
        sum(one.count for one in makes) > MOST * looks
    )


def _is_sending(stack: Stack) -> bool:
    return any(map(SENDS.match, stack.frames))


def _writes(frame: str) -> bool:
    return any(one in frame for one in WRITERS)


def _making(stack: Stack) -> list[str]:
    """The path from the user's first own frame on, below those of a pool; empty where there is none."""
    path = stack.frames
    below = max((depth for depth, frame in enumerate(path) if any(one in frame for one in POOLS)), default=-1)
    for depth, place in enumerate(map(parse_frame, path)):
        if depth > below and place is not None and is_users(place.file):
            return path[depth:]
    return []


FETCH = "torch/utils/data/_utils/fetch.py:"
LIBRARY = re.compile(
    r"/(?:site|dist)-packages/([^/:]+)|/lib/python3\.\d+t?/(?!(?:site|dist)-packages/)([^/:]+)"
    r"|/(bottleneck_doctor)/agent/"
)
OURS = "bottleneck_doctor"
# Modules shown under the name of a library that people know.
KNOWN_AS = {"_compression": "gzip, bz2 or lzma", "sre_compile": "re", "sre_parse": "re", "zipfile": "zip"}


@dataclass(frozen=True)
class LineShare:
    """A line of the user's: the shares of the making of batches, and of the CPU for it, that pass in it or
    below it. ``cpu_share`` is None where thread states were not sampled."""

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


def hot_lines(profile: Profile, loader: Loader | None, loop: Loop | None = None) -> HotLines:
    """Total: too few samples give no lines. A ``loop`` without a loader makes its batches itself."""
    if loader is not None and loader.kind == "dataloader":
        below = (_within_fetch(profile, loader, stack) for stack in profile.stacks)
        return _judge([stack for stack in below if stack.frames])
    if loop is None or loop.loader:
        return HotLines()
    return _judge(list(find_feeders(profile, loop.pid).stacks) or gap_stacks(profile, loop))


def least_cpu_share(line: LineShare, inputs: Inputs) -> float:
    """The line's share of a batch's CPU. Where thread states were not sampled, its lower bound: all sleep in
    the kernel's accounting is charged to the line."""
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
    """The user's frames with their places, each line once: a comprehension is on its caller's line."""
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
