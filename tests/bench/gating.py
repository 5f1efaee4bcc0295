"""Tries the gate on recorded runs of one unchanged job, drift and all, and on noise of known size."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bottleneck_doctor.analyse.gate import DEFAULT_LIMIT, compare_runs
from bottleneck_doctor.model.gate import EXCEEDED, Repeat
from bottleneck_doctor.model.report import Metric, Overhead, Quality, Report, RunSummary, Verdict

SEED = 20_13
SLOWER = 0.10
RUN = RunSummary(["t.py"], "t.py", "/", "2026-11-22T09:00:00Z", 9.0, 0, "box", "3.11", "2.13")


class Row(NamedTuple):
    """One run: seconds since the first; step time with interval; the same without other programs."""

    at_s: float
    step_s: float
    low_s: float
    high_s: float
    own_s: float
    own_low_s: float
    own_high_s: float


def recorded(table: Path) -> dict[str, list[Row]]:
    """The runs of each job in the order in which they were measured."""
    return {job: [Row(*row) for row in rows] for job, rows in json.loads(table.read_text()).items()}


def rates(
    rows: Sequence[Row], repeats: int, in_turn: bool, tries: int, other_programs: bool = True
) -> tuple[float, float]:
    """How often the gate fails at its defaults: on the unchanged job, and with one side a tenth slower.

    Each try takes neighbouring runs, so that the machine's drift stays in. ``other_programs``: whether the
    gate may leave out what those cost.
    """
    chance = random.Random(SEED)
    wrong = right = 0
    for _ in range(tries):
        start = chance.randrange(len(rows) - 2 * repeats + 1)
        base, new = _sides(rows[start : start + 2 * repeats], in_turn, chance)
        wrong += _fails(base, new, 1.0, other_programs)
        right += _fails(base, new, 1 + SLOWER, other_programs)
    return wrong / tries, right / tries


def fair_power(noise: float, repeats: int, tries: int) -> tuple[float, float]:
    """The same on independent runs that differ by ``noise`` and tremble by half a percent within."""
    chance = random.Random(SEED)
    wrong = right = 0
    for _ in range(tries):
        base, new = ([_drawn(noise, chance) for _ in range(repeats)] for _ in range(2))
        wrong += _fails(base, new, 1.0, True)
        right += _fails(base, new, 1 + SLOWER, True)
    return wrong / tries, right / tries


def _drawn(noise: float, chance: random.Random) -> Row:
    step_s = 0.1 * (1 + chance.gauss(0, noise)) * (1 + chance.gauss(0, 0.005))
    ends = (step_s * (1 - 0.0082), step_s * (1 + 0.0082))
    return Row(0.0, step_s, *ends, step_s, *ends)


def _sides(block: Sequence[Row], in_turn: bool, chance: random.Random) -> tuple[list[Row], list[Row]]:
    half = len(block) // 2
    if not in_turn:
        sides = [list(block[:half]), list(block[half:])]
        chance.shuffle(sides)
        return sides[0], sides[1]
    pairs = [chance.sample(block[place : place + 2], 2) for place in range(0, len(block), 2)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _fails(base: list[Row], new: list[Row], slower: float, other_programs: bool) -> bool:
    sides = (_repeats(base, 1.0, other_programs), _repeats(new, slower, other_programs))
    return compare_runs(*sides, DEFAULT_LIMIT).status == EXCEEDED


def _repeats(rows: list[Row], by: float, other_programs: bool) -> list[Repeat]:
    return [Repeat(str(place), _report(row, by, other_programs)) for place, row in enumerate(rows)]


def _report(row: Row, by: float, other_programs: bool) -> Report:
    whole = Metric(by * row.step_s, "s", by * row.low_s, by * row.high_s, 300)
    own = Metric(by * row.own_s, "s", by * row.own_low_s, by * row.own_high_s, 300)
    quality = Quality(
        300, 10, 0.1, Overhead(None, None, None), uncontended_step=own if other_programs else None
    )
    return Report(RUN, quality, {"step_time_s": whole}, [], Verdict("cpu", "none", "", "high"))
