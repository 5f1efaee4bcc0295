"""Steps that get slower are distinguished from noise and from levels."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean

import pytest

from bottleneck_doctor.analyse.drift import find_drift
from bottleneck_doctor.analyse.steady import cuts_of
from bottleneck_doctor.model.diagnosis import Step

MS = 1e-3


def grown(first: float, last: float, noise: float = 0.1, seed: int = 1, rows: int = 400) -> list[Step]:
    """Steps whose own work grows from one value to the other; data takes 2 ms. Strangers make some wait."""
    chance = random.Random(seed)
    steps, t = [], 0.0
    for place in range(rows):
        own = first + (last - first) * place / rows
        own *= 1 + chance.uniform(-noise, noise)
        queue = chance.choice((0.0, 0.0, 3 * own)) if noise > 0.2 else 0.0
        wall = own + 2 * MS + queue
        t += wall
        backward = 0.3 * min(first, last)
        steps.append(Step(t, 1, wall, 2 * MS, backward, *[0.0] * 5, wall - 2 * MS - backward,
                          own, queue, own, 2 * MS, None))  # fmt: skip
    return steps


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noise", [0.1, 0.4])
def test_a_step_that_grows_is_seen_whatever_the_strangers_do(seed: int, noise: float) -> None:
    drift = find_drift(grown(5 * MS, 15 * MS, noise, seed))
    assert drift is not None
    assert drift.first_s == pytest.approx(5 * MS, rel=0.2)
    assert drift.last_s == pytest.approx(15 * MS, rel=0.2)
    assert drift.left == pytest.approx(0.5, abs=0.1), "five of ten milliseconds on average"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "steps",
    [
        lambda seed: grown(10 * MS, 10 * MS, 0.4, seed),
        lambda seed: grown(15 * MS, 5 * MS, 0.1, seed),
        lambda seed: grown(10 * MS, 10.5 * MS, 0.1, seed),
        lambda seed: grown(5 * MS, 5 * MS, 0.1, seed, 200) + grown(15 * MS, 15 * MS, 0.1, seed, 200),
        lambda seed: grown(5 * MS, 15 * MS, 0.1, seed, 20),
    ],
    ids=["noise", "faster", "hardly slower", "two levels", "too few"],
)
def test_nothing_else_is_a_drift(steps, seed: int) -> None:  # type: ignore[no-untyped-def]
    assert find_drift(steps(seed)) is None


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_more_and_more_steps_are_a_line_over_the_steps(seed: int) -> None:
    rows, taken = [], grown(2 * MS, 6 * MS, 0.2, seed, 700)
    while taken:
        together, taken = taken[: 1 + len(rows) // 6], taken[1 + len(rows) // 6 :]
        parts = {name: fmean(getattr(one, name) for one in together) for name in ("wall", "cpu", "compute")}
        rows.append(replace(together[0], steps=len(together), **parts))
    drift = find_drift(rows)
    assert drift is not None
    assert drift.steps == 700
    assert drift.first_s == pytest.approx(2 * MS, rel=0.2)
    assert drift.last_s == pytest.approx(6 * MS, rel=0.2)
    assert drift.left == pytest.approx(0.5, abs=0.1), "two of four milliseconds on average"
    assert cuts_of(rows, 0) == []


@pytest.mark.parametrize("seed", range(6))
def test_first_steps_that_get_faster_do_not_hide_a_growth_over_hundreds(seed: int) -> None:
    """A table begins with rows of one step each: half of its blocks lie in a twentieth of the run."""
    later = [replace(one, steps=16) for one in grown(2 * MS, 6 * MS, 0.1, seed, 40)]
    assert find_drift(grown(2.4 * MS, 2 * MS, 0.1, seed, 40) + later) is not None


def test_steps_that_have_more_to_do_do_not_drift() -> None:
    """Episodes that get longer: the backward pass grows with the rest."""
    longer = [replace(one, backward=0.3 * one.compute) for one in grown(5 * MS, 15 * MS)]
    assert find_drift(longer) is None
    assert find_drift([replace(one, backward=MS) for one in longer]) is not None


def test_without_the_threads_clock_the_wall_time_of_the_loop_grows() -> None:
    blind = [replace(one, cpu=None) for one in grown(5 * MS, 15 * MS)]
    drift = find_drift(blind)
    assert drift is not None
    assert drift.last_s == pytest.approx(15 * MS, rel=0.2)
    assert find_drift([replace(one, compute=0.0, logging=one.compute) for one in blind]) is None
