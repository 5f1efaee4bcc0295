"""Finds steps that take longer and longer along a straight line."""

from __future__ import annotations

from operator import mul
from statistics import median

from ..model.derived import Drift
from ..model.diagnosis import Step
from .steady import blocks_of, fit_line, is_straight

PARTS = ("wait", "compute", "backward", "optimizer", "checkpoint", "logging", "collect", "copy")


GROWN = 1.2  # last step over first, by the line (ours)
RISING = 0.85  # of all pairs of blocks: the later one is slower (ours; 0.5 is noise, 0.75 a single step up)
CLEAR = 4.0  # mean misfits of the line that the growth must exceed (ours)
MATTERS = 0.1  # of the step that the growth must be (ours)
BLOCKS_AT_LEAST = 8
OWN = ("compute", "backward", "optimizer", "copy")  # which the replay knows as one


def find_drift(steps: list[Step]) -> Drift | None:
    """The growth of the step over the steady window, None where it does not grow steadily, or does so as it
    has ever more to do."""
    if not steps or _do_more(steps):
        return None
    cpu = [step.cpu for step in steps if step.cpu is not None]
    fetched = [step.wait_cpu for step in steps if step.wait_cpu is not None]
    if len(cpu) == len(fetched) == len(steps):
        both = [one + other for one, other in zip(cpu, fetched, strict=True)]
        if _grows(both, steps):
            return _drift(both, {"compute": cpu, "wait": fetched}, steps)
    walls = [step.wall for step in steps]
    if not _grows(walls, steps):
        return None
    parts = {name: [float(getattr(step, name)) for step in steps] for name in PARTS}
    return _drift(walls, parts, steps)


def _do_more(steps: list[Step]) -> bool:
    """Whether the backward pass grows with the rest, as it does where episodes or sequences get longer."""
    counts = [step.steps for step in steps]
    parts = ([getattr(step, name) for step in steps] for name in ("compute", "backward"))
    lines = [fit_line(blocks_of(part, counts)) for part in parts]
    return all(one.rising >= RISING and one.last >= GROWN * max(1e-9, one.first) for one in lines)


def _grows(values: list[float], steps: list[Step]) -> bool:
    blocks = blocks_of(values, [step.steps for step in steps])
    if len(blocks.levels) < BLOCKS_AT_LEAST or not is_straight(blocks):
        return False
    line = fit_line(blocks)
    grown = line.last - line.first
    clear = max(CLEAR * line.misfit / len(blocks.levels), MATTERS * median(step.wall for step in steps))
    return line.rising >= RISING and line.last >= GROWN * max(0.0, line.first) and grown > clear


def _drift(values: list[float], parts: dict[str, list[float]], steps: list[Step]) -> Drift:
    counts = [step.steps for step in steps]
    whole = fit_line(blocks_of(values, counts))
    lines = {name: fit_line(blocks_of(part, counts)) for name, part in parts.items()}
    part = max(lines, key=lambda name: lines[name].last - lines[name].first)
    first = max(0.0, lines[part].first)
    together = [name for name in parts if name == part or (name in OWN and part in OWN)]
    means = {name: sum(map(mul, parts[name], counts)) / sum(counts) for name in together}
    base = sum(means.values())
    left = 1 - max(0.0, means[part] - first) / base if base > 0 else 1.0
    return Drift(max(0.0, whole.first), whole.last, part, first, lines[part].last, left, sum(counts))
