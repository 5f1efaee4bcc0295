"""Finds who makes batches beside a loop without a loader: threads that feed it, and processes of a pool."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..model.instruments import Stack
from ..model.profile import Profile
from .hot import is_ours, is_users
from .loop_parts import is_queued, parse_frame

SAMPLES_AT_LEAST = 20  # of the loop's thread, below which shares are guesses (ours)
POOLS = ("/multiprocessing/", "/concurrent/futures/")  # a forked process also shows its parent's frames
WRITERS = ("/torch/serialization.py", "/safetensors/", "/tensorboard/", "/logging/")
SENDS = re.compile(r"(\w+\.)?(put|send|send_bytes|dumps|_sendback_result) \(.*/(multiprocessing|concurrent)/")
PUTS = re.compile(r"(\w+\.)?put \(.*/queues?\.py:")
QUEUED = 0.1  # of the loop's samples in a queue, from which it is fed by threads (ours)
MAKES = 0.5  # of the looks, from which a thread is one of those (ours)
BUSY = 0.3  # of a core, from which one is a feeder (ours)


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
    """Of the training process ``pid``; none where nobody saw which threads run."""
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
    found = [key for key, share in busy.items() if share >= BUSY and _feeds(seen[key])]
    asleep = []
    if sum(one.count for one in main if is_queued(one.frames)) >= QUEUED * looks:
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
            if (path := _users(one)) and not any(map(PUTS.match, path))
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
    makes = sum(one.count for one in stacks if _users(one))
    return sends / (sends + makes) if sends + makes >= SAMPLES_AT_LEAST else 0.0


def _feeds(stacks: list[Stack]) -> bool:
    """Whether it is the user's code that mostly runs there, or the sending of what that gave, and no
    writing."""
    makes = [
        one.running or 0
        for one in stacks
        if (_users(one) or _is_sending(one)) and not any(map(_writes, one.frames))
    ]
    return sum(makes) > 0.5 * sum(one.running or 0 for one in stacks)


def _makes(stacks: list[Stack], looks: int) -> bool:
    """Whether a thread is mostly below the user's lines, writes nothing, and is not ahead of the loop."""
    makes = [one for one in stacks if _users(one) and not is_queued(one.frames)]
    return not any(_writes(frame) for one in makes for frame in one.frames) and (
        sum(one.count for one in makes) > MAKES * looks
    )


def _is_sending(stack: Stack) -> bool:
    return any(map(SENDS.match, stack.frames))


def _writes(frame: str) -> bool:
    return any(one in frame for one in WRITERS)


def _users(stack: Stack) -> list[str]:
    """The path from the user's first own frame on, below those of a pool; empty where there is none."""
    path = stack.frames
    below = max((depth for depth, frame in enumerate(path) if any(one in frame for one in POOLS)), default=-1)
    for depth, place in enumerate(map(parse_frame, path)):
        if depth > below and place is not None and is_users(place.file) and not is_ours(place.file):
            return path[depth:]
    return []
