"""Levels of step times, from seeded series: what splits a run, and what must not."""

from __future__ import annotations

import random

import pytest

from bottleneck_doctor.analyse.steady import blocks_of, cuts_of, find_cut, fit_line
from bottleneck_doctor.model.diagnosis import Step

MS = 1e-3


def steps_of(walls: list[float], waits: list[float] | None = None) -> list[Step]:
    """Steps of these wall times; ``waits`` of them for data."""
    t, steps = 0.0, []
    for wall, wait in zip(walls, waits or [0.0] * len(walls), strict=True):
        t += wall
        steps.append(Step(t, 1, wall, wait, *[0.0] * 6, wall - wait, *[None] * 5))
    return steps


def noisy(level: float, count: int, chance: random.Random, share: float = 0.1) -> list[float]:
    """So many steps around a level, now and then one that takes three times as long."""
    return [
        level * (1 + chance.uniform(-share, share)) * (3 if chance.random() < 0.02 else 1)
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("before", "after"), [(20 * MS, 10 * MS), (10 * MS, 15 * MS)])
@pytest.mark.parametrize("at", [30, 150, 270])
def test_a_change_of_level_is_found_where_it_is(seed: int, before: float, after: float, at: int) -> None:
    chance = random.Random(seed)
    cut = find_cut(steps_of(noisy(before, at, chance) + noisy(after, 300 - at, chance)))
    assert cut == pytest.approx(at, abs=4)


def healthy(kind: str, chance: random.Random, count: int = 400) -> list[float]:
    """Runs that change in many ways, and yet are all of one level."""
    plain = noisy(10 * MS, count, chance)
    if kind == "one stall":
        plain[count // 3] = 8.0
    elif kind == "short and long by turns":
        plain = [wall * (1 if place % 2 else 3) for place, wall in enumerate(plain)]
    elif kind == "short and long at random":
        plain = [wall * chance.choice((1, 3)) for wall in plain]
    elif kind == "heavy tail":
        plain = [wall * chance.paretovariate(2.5) for wall in plain]
    elif kind == "a checkpoint every fifty":
        plain = [wall + (0.3 if place % 50 == 49 else 0.0) for place, wall in enumerate(plain)]
    elif kind == "slower and slower":
        plain = [wall * (1 + 2 * place / count) for place, wall in enumerate(plain)]
    elif kind == "two networks by turns of forty":
        plain = [wall * (1 if place // 40 % 2 else 2) for place, wall in enumerate(plain)]
    return plain


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "kind",
    [
        "noise", "one stall", "short and long by turns", "short and long at random", "heavy tail",
        "a checkpoint every fifty", "slower and slower", "two networks by turns of forty",
    ],
)  # fmt: skip
def test_nothing_else_splits_a_run(kind: str, seed: int) -> None:
    assert cuts_of(steps_of(healthy(kind, random.Random(seed))), 0) == []


def test_a_beginning_and_a_change_later_are_two_cuts() -> None:
    chance = random.Random(1)
    walls = noisy(40 * MS, 30, chance) + noisy(10 * MS, 200, chance) + noisy(20 * MS, 200, chance)
    assert cuts_of(steps_of(walls), 30) == [pytest.approx(30, abs=4), pytest.approx(230, abs=4)]


def test_data_may_become_late_while_steps_stay_as_long() -> None:
    chance = random.Random(2)
    walls = noisy(10 * MS, 300, chance)
    waits = [0.05 * wall for wall in walls[:150]] + [0.7 * wall for wall in walls[150:]]
    assert find_cut(steps_of(walls, waits)) == pytest.approx(150, abs=12)


def test_few_rows_are_never_cut() -> None:
    assert cuts_of(steps_of([0.02] * 12 + [0.01] * 12), 12) == []


def test_a_line_is_told_from_noise_by_its_pairs() -> None:
    chance = random.Random(3)
    rising = blocks_of(healthy("slower and slower", chance), [1] * 400)
    flat = blocks_of(noisy(10 * MS, 400, chance), [1] * 400)
    assert fit_line(rising).rising > 0.9
    assert fit_line(rising).last > 2 * fit_line(rising).first
    assert fit_line(flat).rising < 0.75
