"""Gathers what is drawn of a run from its diagnosis."""

from __future__ import annotations

from collections import Counter

from ..model.diagnosis import Diagnosis
from ..model.instruments import Stack
from ..model.picture import CallPath, CallPaths, Picture
from ..model.profile import Profile
from .hot import role_of
from .lanes import lanes_of
from .loop_parts import is_ours, parse_frame
from .timeline import course_of

ROLES = ("trainer", "worker", "other")
MOST_PATHS = 600  # of all roles together, the heaviest: more boxes than a screen has room for
MOST_FRAMES = 128  # of one path: deeper recursion is a wall of equal boxes

Frames = tuple[str, ...]


def call_paths(profile: Profile) -> list[CallPaths]:
    """Equal paths of several processes are one; roles that were not seen are left out."""
    seen: Counter[tuple[str, Frames]] = Counter()
    awake: Counter[tuple[str, Frames]] = Counter()
    samples: Counter[str] = Counter()
    unknown = set()
    for stack in profile.stacks:
        key = (role_of(profile, stack), _frames(stack))
        samples[key[0]] += stack.count
        seen[key] += stack.count
        awake[key] += stack.running or 0
        if stack.running is None:
            unknown.add(key)
    kept = sorted((key for key in seen if key[1]), key=lambda key: (-seen[key], -awake[key], key))
    paths = {
        key: CallPath(list(key[1]), seen[key], None if key in unknown else awake[key])
        for key in kept[:MOST_PATHS]
    }
    return [
        CallPaths(role, samples[role], [path for (whose, _), path in paths.items() if whose == role])
        for role in ROLES
        if samples[role]
    ]


def _frames(stack: Stack) -> Frames:
    """Without our own hooks, and without what is no frame."""
    frames = [frame for frame in stack.frames if parse_frame(frame) is not None and not is_ours(frame)]
    cut = len(frames) - MOST_FRAMES
    if cut > 0:
        half = MOST_FRAMES // 2
        frames = [*frames[:half], f"{cut} frames left out (<recursion>:0)", *frames[-half:]]
    return tuple(frames)


def picture_of(diagnosis: Diagnosis) -> Picture:
    """Total: any diagnosis has a picture, which may be empty."""
    return Picture(course_of(diagnosis), lanes_of(diagnosis), call_paths(diagnosis.profile))
