"""Tells steps that get slower and slower from noise and from changes of level.

Time spent waiting for a core is left out: strangers who come are no drift.
"""

from __future__ import annotations

from statistics import fmean

from ..model.diagnosis import Step
from ..model.rhythm import Drift
from .levels import blocks_of, find_cut, fit_line

GROWN = 1.2  # last step over first, by the line (ours)
RISING = 0.85  # of all pairs of blocks: the later one is slower (ours; 0.5 is noise, 0.75 a single step up)
CLEAR = 4.0  # mean misfits of the line that the growth must exceed (ours)
BLOCKS_AT_LEAST = 8
OWN = ("compute", "backward", "optimizer", "copy")
PARTS = ("wait", "compute", "backward", "optimizer", "checkpoint", "logging", "collect", "copy")


def find_drift(steps: list[Step]) -> Drift | None:
    """The growth of the step over the steady window, None where it does not grow steadily."""
    _, levels = blocks_of([step.wall - (step.queue or 0.0) for step in steps]) if steps else (0, [])
    if len(levels) < BLOCKS_AT_LEAST or find_cut(steps) is not None:
        return None
    line = fit_line(levels)
    grown = line.last - line.first
    if line.first <= 0 or line.last < GROWN * line.first or line.rising < RISING:
        return None
    if grown < CLEAR * line.misfit / len(levels):
        return None
    parts = {name: fit_line(blocks_of([getattr(step, name) for step in steps])[1]) for name in PARTS}
    part = max(parts, key=lambda name: parts[name].last - parts[name].first)
    first, last = max(0.0, parts[part].first), parts[part].last
    whole = OWN if part in OWN else (part,)  # the replay knows the loop's own parts as one
    mean = fmean([getattr(step, part) for step in steps])
    base = fmean([sum(getattr(step, name) for name in whole) for step in steps])
    left = 1 - max(0.0, mean - first) / base if base > 0 else 1.0
    return Drift(line.first, line.last, part, first, last, left, sum(step.steps for step in steps))
