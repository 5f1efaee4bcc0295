"""What a script's own stopwatch says: its list of named instants, read by nobody but us."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WARMUP_STEPS = 10


@dataclass(frozen=True)
class Truth:
    """The wall time of the training, first line to last, and what the loop's thread waited for.

    The fraction is over the steady steps, from one arrival to a later one, evaluation set aside.
    """

    wall_s: float
    steps: int
    step_median_s: float | None
    wait_fraction: float | None
    evaluation_s: float
    checkpoint_s: float


def truth(marks: Sequence[tuple[str, float]]) -> Truth:
    """Read the marks: ``ask`` and ``got`` stand around each fetch, ``over`` after a loader's last answer."""
    open_s: dict[str, float] = {}
    spent_s = {"eval": 0.0, "save": 0.0}
    waited_s = 0.0
    arrivals: list[tuple[float, float, float]] = []
    for name, at_s in marks:
        if name == "got" or name == "over":
            waited_s += at_s - open_s.pop("ask", at_s)
        if name == "got":
            arrivals.append((at_s, waited_s, spent_s["eval"]))
        elif name.startswith("/"):
            spent_s[name[1:]] += at_s - open_s.pop(name[1:])
        else:
            open_s[name] = at_s
    return Truth(
        wall_s=open_s["end"] - open_s["start"],
        steps=len(arrivals),
        step_median_s=_median_s(arrivals),
        wait_fraction=_fraction(arrivals),
        evaluation_s=spent_s["eval"],
        checkpoint_s=spent_s["save"],
    )


def _steady(arrivals: Sequence[tuple[float, float, float]]) -> Sequence[tuple[float, float, float]]:
    return arrivals[min(WARMUP_STEPS, len(arrivals) // 3) :]


def _median_s(arrivals: Sequence[tuple[float, float, float]]) -> float | None:
    steady = _steady(arrivals)
    steps = [b[0] - a[0] - (b[2] - a[2]) for a, b in pairwise(steady)]
    return statistics.median(steps) if steps else None


def _fraction(arrivals: Sequence[tuple[float, float, float]]) -> float | None:
    steady = _steady(arrivals)
    if len(steady) < 2:
        return None
    (began, waited, aside), (ended, waited_end, aside_end) = steady[0], steady[-1]
    return (waited_end - waited) / (ended - began - (aside_end - aside))
