"""Levels of step times: where a run changes to another one, and whether the loop gets slower and slower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise
from math import log
from operator import mul
from statistics import fmean, median

from ..model.derived import Drift
from ..model.diagnosis import Step
from .shares import NOTICED

BLOCK_ROWS = 5  # in a block at least; its slowest tenth, one row at least, is left out as stalls
BLOCKS_AT_MOST = 64
SIDE_BLOCKS = 2  # a level needs at least so many blocks
APART = 1.3  # times the smaller step, from which levels are two; so is waiting that much more (chosen)
NEAR = 1 / 16  # of the steps: blocks that are no further apart do not show a line's direction (chosen)
NOISE = (4.0, 3.3)  # median, mean deviations: levels differ by more; both are 2.7 standard deviations
SEGMENT_STEPS = 10  # shortest phase worth a verdict
CUTS_AT_MOST = 2  # with more, the run alternates between levels (chosen)

GROWN = 1.2  # last step over first, by the line (chosen)
RISING = 0.85  # of all pairs of blocks: the later one is slower (chosen; 0.5 is noise, 0.75 a single step up)
DRIFT_BLOCKS = 8


@dataclass(frozen=True)
class Blocks:
    """Neighbouring rows together: rows in each, mean of each without its slowest rows, step at its middle."""

    rows: int
    levels: list[float]
    middles: list[float]


@dataclass(frozen=True)
class Trend:
    """A straight line through the levels of blocks: value at the first and at the last block; ``rising`` is
    the share of pairs of blocks in which the later one is higher."""

    first: float
    last: float
    misfit: float
    rising: float


def blocks_of(values: list[float], steps: list[int]) -> Blocks:
    """Blocks of rows, each of so many steps; a rest joins the last block."""
    size = max(BLOCK_ROWS, -(-len(values) // BLOCKS_AT_MOST))
    starts = range(0, max(1, len(values) - size + 1), size)
    edges = list(pairwise([*starts, len(values)]))
    until = [0, *accumulate(steps)]
    middles = [(until[begin] + until[end]) / 2 for begin, end in edges]
    sides = [sorted(values[begin:end]) for begin, end in edges]
    levels = [fmean(side[: max(1, len(side) - max(1, len(side) // 10))]) for side in sides]
    return Blocks(size, levels, middles)


def cuts_of(steps: list[Step], is_early: Callable[[int], bool]) -> list[int]:
    """The rows at which the level changes for good; none where levels alternate. A stretch is not short,
    unless it is the run's beginning."""
    least, length = max(SEGMENT_STEPS, int(NOTICED * len(steps))), len(steps)
    kept: list[int] = []
    for cut in _all_cuts(steps, 0):
        early = not kept and is_early(cut)
        if early or (cut - (kept[-1] if kept else 0) >= least and length - cut >= least):
            kept.append(cut)
    return kept if len(kept) <= CUTS_AT_MOST else []


def _all_cuts(steps: list[Step], offset: int) -> list[int]:
    cut = find_cut(steps) if len(steps) >= 3 * SEGMENT_STEPS else None
    if cut is None:
        return []
    return [*_all_cuts(steps[:cut], offset), offset + cut, *_all_cuts(steps[cut:], offset + cut)]


def find_cut(steps: list[Step]) -> int | None:
    """The row at which the level changes, None where it does not."""
    counts = [step.steps for step in steps]
    walls = blocks_of([step.wall for step in steps], counts)
    waits = blocks_of([step.wait for step in steps], counts)
    places = range(SIDE_BLOCKS, len(walls.levels) - SIDE_BLOCKS + 1)
    if not places or min(walls.levels) <= 0:
        return None
    paces = [log(wall) for wall in walls.levels]
    shares = replace(walls, levels=[a / b for a, b in zip(waits.levels, walls.levels, strict=True)])
    cut = min(places, key=lambda place: _broken(paces, place) + _broken(shares.levels, place))
    slower = is_jump(paces, cut, log(APART)) and not _is_line(walls, cut)
    waiting = is_jump(shares.levels, cut, APART - 1) and not _is_line(shares, cut)
    return _exactly(steps, cut * walls.rows, walls.rows) if slower or waiting else None


def is_jump(levels: list[float], cut: int, least: float) -> bool:
    """Whether two sides differ by at least so much, and beyond the noise of both."""
    before, after = median(levels[:cut]), median(levels[cut:])
    left = [abs(level - before) for level in levels[:cut]] + [abs(level - after) for level in levels[cut:]]
    noise = max(NOISE[0] * median(left), NOISE[1] * fmean(left))
    return abs(after - before) > max(least, noise)


def _exactly(steps: list[Step], near: int, reach: int) -> int:
    """The row within a block of the cut that parts the two levels best."""
    begin, end = max(0, near - 2 * reach), min(len(steps), near + 2 * reach)
    paces = [log(max(step.wall, 1e-9)) for step in steps[begin:end]]
    shares = [step.wait / max(step.wall, 1e-9) for step in steps[begin:end]]
    return begin + min(range(1, len(paces)), key=lambda place: _broken(paces, place) + _broken(shares, place))


def _broken(levels: list[float], cut: int) -> float:
    """What two levels leave unexplained."""
    sides = [(side, median(side)) for side in (levels[:cut], levels[cut:])]
    return sum(sum(abs(level - centre) for level in side) for side, centre in sides)


def _is_line(blocks: Blocks, cut: int) -> bool:
    return fit_line(blocks).misfit <= _broken(blocks.levels, cut)


def fit_line(blocks: Blocks) -> Trend:
    """The line with the median of all slopes."""
    levels, middles = blocks.levels, blocks.middles
    least = NEAR * (middles[-1] - middles[0])
    pairs = list(combinations(range(len(levels)), 2))
    if not pairs:
        return Trend(levels[0], levels[0], 0.0, 0.0)
    slope = median((levels[b] - levels[a]) / (middles[b] - middles[a]) for a, b in pairs)
    start = median(level - slope * middle for level, middle in zip(levels, middles, strict=True))
    misfit = sum(abs(level - start - slope * middle) for level, middle in zip(levels, middles, strict=True))
    apart = [(a, b) for a, b in pairs if middles[b] - middles[a] >= least]
    rising = sum(levels[b] > levels[a] for a, b in apart) / len(apart)
    return Trend(start + slope * middles[0], start + slope * middles[-1], misfit, rising)


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
    places = range(SIDE_BLOCKS, len(blocks.levels) - SIDE_BLOCKS + 1)
    line = fit_line(blocks)
    if len(blocks.levels) < DRIFT_BLOCKS or line.misfit > min(_broken(blocks.levels, one) for one in places):
        return None  # two levels explain it better
    first, grown = max(0.0, line.first), line.last - line.first
    clear = max(NOISE[1] * line.misfit / len(blocks.levels), NOTICED * median(step.wall for step in steps))
    if line.rising < RISING or line.last < GROWN * first or grown <= clear:
        return None
    mean = sum(map(mul, own, counts)) / sum(counts)
    return Drift(first, line.last, min(1.0, first / mean), sum(counts))


def _has_more_to_do(steps: list[Step], counts: list[int]) -> bool:
    """Whether the backward pass grows with the rest, as it does where episodes or sequences get longer."""
    parts = ([getattr(step, name) for step in steps] for name in ("compute", "backward"))
    lines = [fit_line(blocks_of(part, counts)) for part in parts]
    return all(one.rising >= RISING and one.last >= GROWN * max(1e-9, one.first) for one in lines)
