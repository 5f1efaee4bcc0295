"""Which steps of a trace are whole, on the host and on the device, which may be far behind."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise

from .gaps import Host, computes
from .timeline import Timeline

STEP = re.compile(r"bdoc#step#(\d+)")
MATCHED = 0.95  # of a step's launches must have left their kernel, or the trace ends inside of it (ours)
EARLY_US = 50  # a kernel that begins so long before its launch was timed by another clock (ours)


@dataclass(frozen=True)
class Steps:
    """Whole steps of one loop, on the host's side: it runs in ``thread``, from ``begin`` to ``end``."""

    count: int
    thread: str
    begin: float
    end: float


def find_steps(timeline: Timeline) -> Steps | None:
    """The steps between the second mark and the last one whose launches left their kernels: where the device
    stands at the first, nothing says."""
    marks = [one for one in timeline.ranges if STEP.match(one.name)]
    if marks:
        marks = [one for one in marks if (one.thread, one.name) == (marks[0].thread, marks[0].name)]
    if len(marks) < 3:
        return None
    left = {one.correlation: one.begin for one in timeline.work}
    launches = [one for one in timeline.calls if "Launch" in one.name and one.correlation]
    if any(left.get(one.correlation, one.begin) < one.begin - EARLY_US for one in launches):
        return None  # after idling, the tracer's device clock may drift from the host's (pytorch #192021)
    begins = [one.begin for one in launches]
    whole = 1
    for first, last in pairwise(marks[1:]):
        mine = launches[bisect_left(begins, first.begin) : bisect_left(begins, last.begin)]
        if sum(one.correlation in left for one in mine) < MATCHED * len(mine):
            break
        whole += 1
    if whole < 2:
        return None
    return Steps(whole - 1, marks[0].thread, marks[1].begin, marks[whole].begin)


def backward_threads(timeline: Timeline) -> set[str]:
    """Threads in which torch runs backward passes."""
    return {
        one.thread for one in timeline.ranges if one.name.startswith("autograd::engine::evaluate_function")
    }


def issue_times(timeline: Timeline, host: Host) -> list[float]:
    """When the host launched each piece of work. Where the trace does not hold the launch, it was that of the
    work before; the first were launched before the trace began, by a loop that is far ahead."""
    issued, latest = [], -math.inf
    for one in timeline.work:
        call = host.launched.get(one.correlation)
        latest = call.begin if call is not None else latest
        issued.append(latest)
    return issued


def reached(timeline: Timeline, issued: list[float], instant: float) -> float:
    """Where the device stood when it had done all that was issued before an instant of the host."""
    work = zip(timeline.work, issued, strict=True)
    return max((one.end for one, t in work if computes(one) and t < instant), default=instant)
