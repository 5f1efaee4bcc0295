"""Finds training loops that leak: their own time per step grows along a straight line."""

from __future__ import annotations

from operator import mul
from statistics import median

from ..model.derived import Drift
from ..model.diagnosis import Step
from .steady import blocks_of, fit_line, is_straight

GROWN = 1.2  # last step over first, by the line (chosen)
RISING = 0.85  # of all pairs of blocks: the later one is slower (chosen; 0.5 is noise, 0.75 a single step up)
CLEAR = 4.0  # mean misfits of the line that the growth must exceed (chosen)
MATTERS = 0.1  # of the step that the growth must be (chosen)
BLOCKS_AT_LEAST = 8


def find_drift(steps: list[Step]) -> Drift | None:
    """The growth over the steady window of the CPU time of the loop's thread outside of the loader, or, where
    that was not measured, of its wall time; None where it does not grow steadily, or the work grows."""
    counts = [step.steps for step in steps]
    if not steps or _has_more_to_do(steps, counts):
        return None
    own = [step.cpu for step in steps if step.cpu is not None]
    if len(own) < len(steps):
        own = [step.wall - step.wait - step.checkpoint - step.logging - step.collect for step in steps]
    blocks = blocks_of(own, counts)
    if len(blocks.levels) < BLOCKS_AT_LEAST or not is_straight(blocks):
        return None
    line = fit_line(blocks)
    first, grown = max(0.0, line.first), line.last - line.first
    clear = max(CLEAR * line.misfit / len(blocks.levels), MATTERS * median(step.wall for step in steps))
    if line.rising < RISING or line.last < GROWN * first or grown <= clear:
        return None
    mean = sum(map(mul, own, counts)) / sum(counts)
    return Drift(first, line.last, min(1.0, first / mean), sum(counts))


def _has_more_to_do(steps: list[Step], counts: list[int]) -> bool:
    """Whether the backward pass grows with the rest, as it does where episodes or sequences get longer."""
    parts = ([getattr(step, name) for step in steps] for name in ("compute", "backward"))
    lines = [fit_line(blocks_of(part, counts)) for part in parts]
    return all(one.rising >= RISING and one.last >= GROWN * max(1e-9, one.first) for one in lines)
