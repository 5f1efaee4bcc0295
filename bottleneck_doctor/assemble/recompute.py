"""Forward work that backward passes repeat, as activation checkpointing has them do.

torch numbers operators that it records for a backward pass. Inside of such a pass nothing is recorded, but
what is computed again: a numbered operator in there that the forward pass had too, with the same shapes.
"""

from __future__ import annotations

from .gaps import Host
from .stretches import Stretch, joined, shared
from .timeline import Range, Timeline, Work

NODE = "autograd::engine::evaluate_function"
COMPILED = ("Torch-Compiled Region", "CompiledFunction")  # what is repeated in there bears no names


def repeated_us(timeline: Timeline, host: Host, work: list[Work], thread: str) -> float | None:
    """Microseconds of this work that repeat operators of the loop's thread; None where names are missing."""
    if any(one.name.startswith(COMPILED) for one in timeline.ranges):
        return None
    forward = {_likeness(one) for one in timeline.ranges if one.thread == thread and _recorded(one)}
    again: dict[str, list[Stretch]] = {}
    passes: dict[str, list[Stretch]] = {}
    for one in timeline.ranges:
        if one.name.startswith(NODE):
            passes.setdefault(one.thread, []).append((one.begin, one.end))
        elif _recorded(one) and _likeness(one) in forward:
            again.setdefault(one.thread, []).append((one.begin, one.end))
    inside = {}
    for name, mine in passes.items():
        whole = joined(mine)
        inside[name] = [
            part for begin, end in joined(again.get(name, [])) for part in shared(whole, begin, end)
        ]
    return sum(one.end - one.begin for one in work if _is_in(host, one, inside))


def _recorded(one: Range) -> bool:
    """Whether it is an operator of a forward pass that torch recorded; nodes name the thread of theirs."""
    return "Sequence number" in one.given and not one.given.get("Fwd thread id") and "::" in one.name


def _likeness(one: Range) -> tuple[str, str]:
    return one.name, str(one.given.get("Input Dims"))


def _is_in(host: Host, work: Work, stretches: dict[str, list[Stretch]]) -> bool:
    call = host.launched.get(work.correlation)
    return call is not None and bool(shared(stretches.get(call.thread, []), call.begin, call.end))
