"""Which functions and lines threads were in: the loop's, the workers', and where batches are made."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace

from ..model.code import Location
from ..model.diagnosis import Inputs
from ..model.instruments import Stack
from ..model.loops import Loader, Loop
from ..model.profile import Profile
from ..model.report import HotFunction, HotOperator
from ..source.files import is_ours, is_queued, is_users, parse_frame, users_path
from ..source.purpose import forced_at
from .loop_without_loader import gap_stacks
from .shares import LARGE_PART, MOST, NOTICED
from .steps import SAMPLES_AT_LEAST

LISTED = 20  # of each role's own and of its library functions: a readable list of bounded size
LEAST = 0.005  # of the samples, below which a function is noise at the few hundred that a window takes


def hot_functions(profile: Profile) -> list[HotFunction]:
    """The user's functions first, then those of libraries; each by what it took itself."""
    found = []
    for role in ("trainer", "worker"):
        listed = _functions([one for one in profile.stacks if role_of(profile, one) == role], role)
        for users in (True, False):
            found += [one for one in listed if one.users is users][:LISTED]
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


def _functions(stacks: list[Stack], role: str) -> list[HotFunction]:
    """Those of some threads, by (function, file); what a library does counts for the user's caller, too."""
    samples = sum(stack.count for stack in stacks)
    own, total, looked, awake = (Counter[tuple[str, str]]() for _ in range(4))
    lines: dict[tuple[str, str], Counter[int]] = {}
    for stack in stacks:
        places = [place for place in map(parse_frame, stack.frames) if place and not is_ours(place.file)]
        for place in places:
            lines.setdefault((place.function, place.file), Counter())[place.line] += stack.count
        total.update(dict.fromkeys({(place.function, place.file) for place in places}, stack.count))
        mine = [place for place in places if is_users(place.file)]
        for key in {(place.function, place.file) for place in [*mine[-1:], *places[-1:]]}:
            own[key] += stack.count
            if stack.running is not None:
                looked[key] += stack.count
                awake[key] += stack.running
    return [
        HotFunction(
            function=key[0],
            location=Location(key[1], lines[key].most_common(1)[0][0], key[0]),
            role=role,
            users=is_users(key[1]),
            own_share=count / samples,
            total_share=total[key] / samples,
            n=samples,
            # Taken at other instants than the samples: chance may make it a little more.
            on_cpu_share=min(1.0, awake[key] / looked[key]) if looked[key] >= SAMPLES_AT_LEAST else None,
        )
        for key, count in own.most_common()
        if samples and count >= LEAST * samples
    ]


def hot_operators(profile: Profile) -> list[HotOperator]:
    """The profiled step's operators, the dearest first: by the accelerator's time where it computed them."""
    device = any(one.self_device_s for one in profile.operators)
    costs = [one.self_device_s if device else one.self_cpu_s for one in profile.operators]
    whole = sum(costs) or 1.0
    found = [
        HotOperator(one.name, one.calls, one.self_cpu_s, one.self_device_s, cost / whole)
        for one, cost in zip(profile.operators, costs, strict=True)
    ]
    return sorted(found, key=lambda one: (-one.share, one.name))[: 2 * LISTED]


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


NO_FEEDERS = Feeders()


def find_feeders(profile: Profile, pid: int) -> Feeders:
    """Of the training process ``pid``; none where thread states were not sampled."""
    pools, newest = set[int](), {pid}  # what it started, itself or through a fork server, no loader's workers
    while newest:
        newest = {one.pid for one in profile.processes if one.ppid in newest and not one.loader} - pools
        pools |= newest
    main = [one for one in profile.stacks if one.pid == pid and "Main" in one.thread]
    looks = sum(one.count for one in main)
    if looks < SAMPLES_AT_LEAST:
        return NO_FEEDERS
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
    # Pickling what was made, and waiting until the pipe has taken it; a pool that waits for work is idle.
    pooled = [one for one in profile.stacks if one.pid in pools]
    sends = sum(one.count for one in pooled if _is_sending(one))
    works = sends + sum(one.count for one in pooled if _making(one))
    return Feeders(
        count=len(found),
        asleep=len(asleep),
        cores=sum(min(1.0, busy[key]) for key in found),
        sending=sends / works if works >= SAMPLES_AT_LEAST else 0.0,
        stacks=tuple(
            replace(one, frames=path)
            for key in found + asleep
            for one in seen[key]
            if (path := _making(one)) and not any(map(PUTS.match, path))
        ),
    )


def _feeds(stacks: list[Stack]) -> bool:
    """Whether a thread mostly runs the user's code or sends its results, and writes nothing."""
    makes = [one for one in stacks if (_making(one) or _is_sending(one)) and not _writes(one)]
    return sum(one.running or 0 for one in makes) > MOST * sum(one.running or 0 for one in stacks)


def _makes(stacks: list[Stack], looks: int) -> bool:
    """Whether a thread is mostly below the user's lines, writes nothing, and is not ahead of the loop."""
    makes = [one for one in stacks if _making(one) and not is_queued(one.frames)]
    return not any(map(_writes, makes)) and sum(one.count for one in makes) > MOST * looks


def _is_sending(stack: Stack) -> bool:
    return any(map(SENDS.match, stack.frames))


def _writes(stack: Stack) -> bool:
    return any(mark in frame for frame in stack.frames for mark in WRITERS)


def _making(stack: Stack) -> list[str]:
    """The path from the user's first own frame on, below those of a pool; empty where there is none."""
    path = stack.frames
    below = max((depth for depth, frame in enumerate(path) if any(one in frame for one in POOLS)), default=-1)
    for depth, place in enumerate(map(parse_frame, path)):
        if depth > below and place is not None and is_users(place.file):
            return path[depth:]
    return []


FETCH = "torch/utils/data/_utils/fetch.py:"
PACKAGE = re.compile(
    r"/(?:site|dist)-packages/([^/:]+)|/lib/python3\.\d+t?/(?!(?:site|dist)-packages/)([^/:]+)"
)
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
    """The lines of threads that were making batches, waiting included, largest share first.

    ``hottest`` is the deepest line that holds half of them, else the one that holds most; ``library`` is
    what that line was mostly inside of, "" for the line itself; ``function`` the deepest of the user's below
    it that holds half of them, by one of its lines.
    """

    lines: list[LineShare] = field(default_factory=list)
    hottest: LineShare | None = None
    library: str = ""
    function: LineShare | None = None


def hot_lines(profile: Profile, loader: Loader | None, loop: Loop | None = None) -> HotLines:
    """Total: too few samples give no lines. A ``loop`` without a loader makes its batches itself."""
    if loader is not None and loader.kind == "dataloader":
        below = (_within_fetch(profile, loader, stack) for stack in profile.stacks)
        return _judge([stack for stack in below if stack.frames])
    if loop is None or loop.loader:
        return HotLines()
    return _judge(list(find_feeders(profile, loop.pid).stacks) or gap_stacks(profile, loop))


def forced_lines(profile: Profile, loader: Loader | None, loop: Loop | None) -> list[LineShare]:
    """Those that wait until a disk has what they write, largest share first."""
    lines = hot_lines(profile, loader, loop).lines
    return [one for one in lines if forced_at(profile.sources, one.location)]


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
    seen: dict[str, list[tuple[int, Stack]]] = {}  # line -> (place in the path, path)
    for stack in stacks if total >= SAMPLES_AT_LEAST else ():
        for place, frame in _users(stack.frames):
            seen.setdefault(frame, []).append((place, stack))
    lines: dict[str, LineShare] = {}
    depths: dict[str, float] = {}
    for frame, paths in seen.items():
        count = sum(stack.count for _, stack in paths)
        running = sum(stack.running or 0 for _, stack in paths) / awake if awake >= SAMPLES_AT_LEAST else None
        location = parse_frame(frame)
        assert location is not None
        lines[frame] = LineShare(location, count / total, running)
        depths[frame] = sum(place * stack.count for place, stack in paths) / max(1, count)
    if not lines:
        return HotLines()
    chosen = max((one for one in lines if lines[one].share >= MOST), key=depths.__getitem__, default="")
    chosen = chosen or max(lines, key=lambda frame: lines[frame].share)
    ranked = sorted(lines.values(), key=lambda line: -line.share)
    inside: Counter[str] = (
        Counter()
    )  # by the package of the first frame below the line that is not the user's
    for place, stack in seen[chosen]:
        found = (PACKAGE.search(frame) for frame in stack.frames[place + 1 :] if not is_ours(frame))
        match = next(filter(None, found), None)
        inside[(match[1] or match[2]).removesuffix(".py") if match is not None else ""] += stack.count
    library = inside.most_common(1)[0][0]
    return HotLines(ranked, lines[chosen], KNOWN_AS.get(library, library), _below(seen[chosen], total))


def _below(paths: list[tuple[int, Stack]], total: int) -> LineShare | None:
    """The deepest of the user's named functions below a line that holds half of all samples."""
    counts = Counter[tuple[str, str]]()
    lines: dict[tuple[str, str], Location] = {}
    for place, stack in paths:
        below = [one for one in users_path(stack.frames[place + 1 :]) if not one.function.endswith(">")]
        lines |= {(one.file, one.function): one for one in below}
        counts.update(dict.fromkeys(((one.file, one.function) for one in below), stack.count))
    most = [key for key in counts if counts[key] >= MOST * total]
    deepest = min(reversed(most), key=counts.__getitem__, default=None)
    return LineShare(lines[deepest], counts[deepest] / total) if deepest is not None else None


def users_line(stack: Stack) -> Location | None:
    """The user's innermost line of one call path."""
    found = _users(stack.frames)
    return parse_frame(found[-1][1]) if found else None


def _users(path: list[str]) -> list[tuple[int, str]]:
    """The user's frames with their places, each line once: a comprehension is on its caller's line."""
    found: dict[tuple[str, int], tuple[int, str]] = {}
    for n, frame in enumerate(path):
        place = parse_frame(frame)
        if place is not None and is_users(place.file):
            line = place.file, place.line
            found[line] = (n, found[line][1] if line in found else frame)
    return list(found.values())
