"""The noise model by what it promises: intervals hold, luck does not count, disturbed runs weigh little."""

from __future__ import annotations

import math
import random

import pytest

from bottleneck_doctor.analyse.gate import (
    BELIEVED,
    BELIEVED_WORTH,
    MOST_REPEATS,
    Measured,
    change_between,
    quantile_95,
    repeats_to_see,
    would_see,
)


def runs(*values: float, error: float = 0.001) -> list[Measured]:
    return [Measured(value, error) for value in values]


@pytest.mark.parametrize(
    ("freedom", "known"), [(4, 2.1318), (5, 2.0150), (8, 1.8595), (12, 1.7823), (30, 1.6973), (1e9, 1.6449)]
)
def test_the_quantile_is_that_of_students_tables(freedom: float, known: float) -> None:
    assert quantile_95(freedom) == pytest.approx(known, abs=0.003)


def test_one_run_a_side_knows_only_what_was_believed() -> None:
    change = change_between(runs(1.0), runs(1.1))
    assert change.noise == BELIEVED
    assert change.freedom == BELIEVED_WORTH
    assert (change.base, change.new, change.change) == pytest.approx((1.0, 1.1, 0.1))
    reach = quantile_95(BELIEVED_WORTH) * math.sqrt(2) * math.hypot(BELIEVED, 0.001)
    assert change.low == pytest.approx(1.1 * math.exp(-reach) - 1)
    assert change.high == pytest.approx(1.1 * math.exp(reach) - 1)


def test_two_runs_that_agree_by_luck_do_not_promise_precision() -> None:
    assert change_between(runs(1.0, 1.0), runs(1.0, 1.0)).noise > 0.5 * BELIEVED


def test_many_runs_overrule_what_was_believed() -> None:
    chance = random.Random(1)
    for noise in (0.002, 0.1):
        sides = [runs(*(math.exp(chance.gauss(0, noise)) for _ in range(200))) for _ in range(2)]
        assert change_between(*sides).noise == pytest.approx(noise, rel=0.3)


def test_scatter_that_the_runs_own_errors_explain_is_not_counted_twice() -> None:
    chance = random.Random(2)
    sides = [runs(*(math.exp(chance.gauss(0, 0.05)) for _ in range(100)), error=0.05) for _ in range(2)]
    assert change_between(*sides).noise < 0.02


def test_a_disturbed_run_hardly_moves_the_mean() -> None:
    quiet = runs(1.0, 1.01, 0.99, 1.0)
    change = change_between(quiet, [*quiet, Measured(2.0, 0.3)])
    assert abs(change.change) < 0.01
    assert change.high < 0.05


def test_sides_that_are_exchanged_turn_the_change_round() -> None:
    base, new = runs(1.0, 1.02, 0.97), runs(1.1, 1.15)
    there, back = change_between(base, new), change_between(new, base)
    assert 1 + back.change == pytest.approx(1 / (1 + there.change))
    assert 1 + back.low == pytest.approx(1 / (1 + there.high))


@pytest.mark.parametrize(("noise", "repeats"), [(0.01, 1), (0.02, 3), (0.02, 5)])
def test_the_interval_holds_the_truth_nine_times_of_ten(noise: float, repeats: int) -> None:
    chance = random.Random(3)
    held = 0
    for _ in range(1000):
        base, new = (
            runs(*(math.exp(shift + chance.gauss(0, noise)) for _ in range(repeats))) for shift in (0.0, 0.07)
        )
        change = change_between(base, new)
        held += change.low <= math.expm1(0.07) <= change.high
    assert held >= 890


def test_more_repeats_see_less_and_as_many_as_are_advised_see_enough() -> None:
    changes = [change_between(runs(*[1.0] * n), runs(*[1.0] * n)) for n in range(1, 8)]
    sees = [would_see(change.spread, change.freedom, 0.03) for change in changes]
    assert sees == sorted(sees, reverse=True)
    needed = repeats_to_see(0.1, 0.03, runs(1.0), runs(1.0))
    assert needed is not None
    assert 1 < needed <= MOST_REPEATS
    assert sees[needed - 1] <= 0.1 < sees[0]


def test_where_no_number_of_runs_would_do_none_is_advised() -> None:
    wild = runs(0.5, 1.0, 2.0)
    assert repeats_to_see(0.1, 0.03, wild, wild) is None
