"""Frames of call paths, ``function (file:line)``: their places, and whether they are the user's code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from ..model.code import Location

LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.")
OURS = ("/bottleneck_doctor/agent/", "/bottleneck_doctor/inject/")
QUEUES = re.compile(r"(\w+\.)?(wait|get|put) \(.*/(threading|queue)\.py:")  # events and futures wait, too
FRAMES = 1 << 14  # and call paths, that are kept taken apart: they are asked for dozens of times


def is_queued(frames: Iterable[str]) -> bool:
    """Whether the path waits for another thread, in a queue or for a future."""
    return any(map(QUEUES.match, frames))


def is_ours(place: str) -> bool:
    """Whether a file, or a frame, is a hook of this package's."""
    return any(mark in place for mark in OURS)


def is_users(file: str) -> bool:
    """Whether a file is the user's own: no library's, not Python's, no hook."""
    return not file.startswith("<") and not is_ours(file) and not any(mark in file for mark in LIBRARIES)


def users_path(frames: Iterable[str]) -> tuple[Location, ...]:
    """The user's frames of a call path, outermost first."""
    return _users_path(tuple(frames))


@lru_cache(maxsize=FRAMES)
def _users_path(frames: tuple[str, ...]) -> tuple[Location, ...]:
    return tuple(place for place in map(parse_frame, frames) if place is not None and is_users(place.file))


LINE = re.compile(r"[0-9]{1,9}")  # digits of other scripts are digits to str.isdigit, and none to int


@lru_cache(maxsize=FRAMES)
def parse_frame(frame: str) -> Location | None:
    """``function (file:line)`` as a location."""
    function, _, rest = frame.partition(" (")
    file, _, line = rest.rstrip(")").rpartition(":")
    return Location(file, int(line), function) if file and LINE.fullmatch(line) else None
