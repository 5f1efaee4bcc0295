"""Where the time was seen to go, line by line and operator by operator, as the report lists it."""

from __future__ import annotations

from dataclasses import dataclass

from .profile import Location


@dataclass(frozen=True)
class HotFunction:
    """A function in the stack samples of one role: the training thread (trainer) or the workers (worker).

    ``own_share``, of the role's ``n`` samples, is the function itself; for the user's own functions
    (``users``) it includes the library code that they called. ``total_share`` includes whatever was called.
    The line is the one it was seen in most. ``on_cpu_share`` is the share of its own samples in which the
    thread was on a core or ready for one, not blocked: asleep, in a lock, reading; None where that was not
    seen, or in fewer than 20 samples.
    """

    function: str
    location: Location
    role: str
    users: bool
    own_share: float
    total_share: float
    n: int
    on_cpu_share: float | None = None


@dataclass(frozen=True)
class HotOperator:
    """An operator of torch in the profiled step: its own CPU seconds, and their share of all operators'."""

    name: str
    calls: float
    self_cpu_s: float
    self_device_s: float
    share: float
