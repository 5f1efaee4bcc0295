"""What a page draws of a run: its course, call paths and ranks."""

from __future__ import annotations

from collections import Counter

from ..model.diagnosis import Diagnosis
from ..model.picture import CallPath, CallPaths, Picture
from ..model.profile import Profile
from ..source.files import is_ours, parse_frame
from .hot_lines import role_of
from .ranks import rank_map
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
        # Without our own hooks, and without what is no frame.
        frames = [frame for frame in stack.frames if parse_frame(frame) is not None and not is_ours(frame)]
        if (cut := len(frames) - MOST_FRAMES) > 0:
            half = MOST_FRAMES // 2
            frames = [*frames[:half], f"{cut} frames left out (<recursion>:0)", *frames[-half:]]
        key = (role_of(profile, stack), tuple(frames))
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


def picture_of(diagnosis: Diagnosis) -> Picture:
    """Total: any diagnosis has a picture, which may be empty."""
    profile = diagnosis.profile
    return Picture(course_of(diagnosis), call_paths(profile), rank_map(profile))
