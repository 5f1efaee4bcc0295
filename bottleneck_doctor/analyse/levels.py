"""Levels of step times: where a run changes to another one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise
from math import log
from statistics import fmean, median

from ..model.diagnosis import Step
from .shares import NOTICED

BLOCK_ROWS = 5  # in a block at least; its slowest tenth, one row at least, is left out as stalls
BLOCKS_AT_MOST = 64
SIDE_BLOCKS = 2  # a level needs at least so many blocks
APART = 1.3  # times the smaller step, from which levels are two; so is waiting that much more (chosen)
NOISE = (4.0, 3.3)  # median, mean deviations: levels differ by more; both are 2.7 standard deviations
SEGMENT_STEPS = 10  # shortest phase worth a verdict
CUTS_AT_MOST = 2  # with more, the run alternates between levels (chosen)


@dataclass(frozen=True)
class Blocks:
    """Neighbouring rows together: rows in each, mean of each without its slowest rows, step at its middle."""

    rows: int
    levels: list[float]
    middles: list[float]


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
    return _misfit(blocks) <= _broken(blocks.levels, cut)


def _misfit(blocks: Blocks) -> float:
    """What the line with the median of all slopes leaves unexplained."""
    levels, middles = blocks.levels, blocks.middles
    pairs = list(combinations(range(len(levels)), 2))
    if not pairs:
        return 0.0
    slope = median((levels[b] - levels[a]) / (middles[b] - middles[a]) for a, b in pairs)
    start = median(level - slope * middle for level, middle in zip(levels, middles, strict=True))
    return sum(abs(level - start - slope * middle) for level, middle in zip(levels, middles, strict=True))
