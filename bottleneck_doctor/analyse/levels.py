"""Finds where the steps of a run change their level, and tells that from noise, single stalls and drift.

Rows are put together into blocks, each without its slowest rows: a single stall then moves nothing, and
batches that are long and short by turns look alike everywhere. Two levels are believed when they fit the
blocks better than one straight line does, and lie further apart than blocks of the same level do; ratios are
compared, since a slow level is also a noisy one. Lines run over steps, not over rows: the first rows of a
table hold one step each, later ones many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, combinations, pairwise
from math import log
from statistics import fmean, median

from ..model.diagnosis import Step

BLOCK_ROWS = 5  # in a block at least
BLOCKS_AT_MOST = 64
SLOWEST = 0.1  # of a block's rows, one at least, are left out as stalls (ours)
SIDE_BLOCKS = 2  # a level that was seen in fewer is not believed
APART = 1.3  # times the smaller step, from which two levels are two (ours)
NEAR = 1 / 16  # of the steps: blocks that are no further apart say nothing of a line's direction (ours)
WAITING = 0.3  # of a step more, or less, spent waiting: a level of its own too (ours)
NOISE = (4.0, 3.3)  # median, mean deviations within the levels, which their distance beats: 2.7 standard ones


@dataclass(frozen=True)
class Blocks:
    """Neighbouring rows together: rows in each, mean of each without its slowest rows, step at its middle."""

    rows: int
    levels: list[float]
    middles: list[float]


@dataclass(frozen=True)
class Trend:
    """A straight line through the levels of blocks: value at the first and at the last block."""

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
    return Blocks(size, [_level(values[begin:end]) for begin, end in edges], middles)


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
    slower = _is_jump(paces, cut, log(APART)) and not _is_line(walls, cut)
    waiting = _is_jump(shares.levels, cut, WAITING) and not _is_line(shares, cut)
    return _exactly(steps, cut * walls.rows, walls.rows) if slower or waiting else None


def fit_line(blocks: Blocks) -> Trend:
    """The median of all slopes, and the share of pairs of blocks in which the later one is higher."""
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


def is_straight(blocks: Blocks) -> bool:
    """Whether one line explains the levels better than any two levels would."""
    places = range(SIDE_BLOCKS, len(blocks.levels) - SIDE_BLOCKS + 1)
    return fit_line(blocks).misfit <= min((_broken(blocks.levels, place) for place in places), default=0.0)


def _level(values: list[float]) -> float:
    kept = sorted(values)[: max(1, len(values) - max(1, int(SLOWEST * len(values))))]
    return fmean(kept)


def _misfit(levels: list[float]) -> float:
    centre = median(levels)
    return sum(abs(level - centre) for level in levels)


def _broken(levels: list[float], cut: int) -> float:
    """What two levels leave unexplained."""
    return _misfit(levels[:cut]) + _misfit(levels[cut:])


def _is_jump(levels: list[float], cut: int, least: float) -> bool:
    before, after = median(levels[:cut]), median(levels[cut:])
    left = [abs(level - before) for level in levels[:cut]] + [abs(level - after) for level in levels[cut:]]
    noise = max(NOISE[0] * median(left), NOISE[1] * fmean(left))
    return abs(after - before) > max(least, noise)


def _is_line(blocks: Blocks, cut: int) -> bool:
    return fit_line(blocks).misfit <= _broken(blocks.levels, cut)


def _exactly(steps: list[Step], near: int, reach: int) -> int:
    """The row within a block of the cut that parts the two levels best."""
    begin, end = max(0, near - 2 * reach), min(len(steps), near + 2 * reach)
    paces = [log(max(step.wall, 1e-9)) for step in steps[begin:end]]
    shares = [step.wait / max(step.wall, 1e-9) for step in steps[begin:end]]
    places = range(1, len(paces))
    return begin + min(places, key=lambda place: _broken(paces, place) + _broken(shares, place))
