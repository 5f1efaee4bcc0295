"""The costliest operators of a trace: the device's time for what each launched, and its own CPU time."""

from __future__ import annotations

from collections.abc import Iterable

from ..model.instruments import Operator
from .timeline import Range, Timeline

OPERATORS_AT_MOST = 40
OURS = "bdoc#"
US = 1e-6


def read_operators(
    timeline: Timeline, begin: float, end: float, steps: int, device_us: dict[str, float]
) -> list[Operator]:
    """Means per step of operators that begin in [begin, end), those of the most device time first."""
    calls, own = own_times(one for one in timeline.ranges if begin <= one.begin < end)
    found = [
        Operator(
            name,
            calls[name] / steps,
            own.get(name, 0.0) * US / steps,
            device_us.get(name, 0.0) * US / steps,
        )
        for name in calls
        if not name.startswith(OURS)
    ]
    return sorted(found, key=lambda one: (-one.self_device_s, -one.self_cpu_s))[:OPERATORS_AT_MOST]


def own_times(ranges: Iterable[Range]) -> tuple[dict[str, int], dict[str, float]]:
    """({name: calls}, {name: microseconds that no range inside took}); in the order of their beginnings."""
    calls: dict[str, int] = {}
    own: dict[str, float] = {}
    stacks: dict[str, list[Range]] = {}
    for one in ranges:
        stack = stacks.setdefault(one.thread, [])
        while stack and stack[-1].end <= one.begin:
            stack.pop()
        taken = one.end - one.begin
        calls[one.name] = calls.get(one.name, 0) + 1
        own[one.name] = own.get(one.name, 0.0) + taken
        if stack:
            own[stack[-1].name] -= min(taken, stack[-1].end - one.begin)
        stack.append(one)
    return calls, own
