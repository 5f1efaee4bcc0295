"""What comes back in a run at a regular distance, and what grows."""

from __future__ import annotations

from dataclasses import dataclass

from .profile import Location


@dataclass(frozen=True)
class Rhythm:
    """Steps that take much longer than the others, at a regular distance.

    ``part`` is the part of the step that grows: a field of ``Step``, or "epoch start" or "evaluation".
    ``every_steps`` lies between two of them, each takes ``each_s`` seconds longer than other steps: ``cpu_s``
    on the loop thread's CPU, ``queue_s`` waiting for one (None = not measured); ``share`` of the time.
    """

    part: str
    count: int
    every_steps: float
    each_s: float
    share: float
    cpu_s: float | None = None
    queue_s: float | None = None
    name: str = ""
    location: Location | None = None


@dataclass(frozen=True)
class Drift:
    """Steps that take longer and longer: seconds, of CPU or of wall time, at both ends of a straight line.

    ``part`` is the part of the step that grows most; ``left`` the share of it that would be left, on average,
    had it stayed as it was at the beginning.
    """

    first_s: float
    last_s: float
    part: str
    part_first_s: float
    part_last_s: float
    left: float
    steps: int
