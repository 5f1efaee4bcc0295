"""A constant is fitted to the others, and held against what was left out."""

from __future__ import annotations

import pytest

from tests.accuracy.fit import CONSTANTS, Constant, fitted, told

ONE = Constant("math", "pi", "a number", (2.0, 4.0))


def test_the_value_that_suits_most_is_the_best() -> None:
    rows = {
        3.0: {"a": 0.2, "b": 0.2, "c": -0.1, "d": 0.0},
        2.0: {"a": 0.0, "b": 0.0, "c": -0.3, "d": 0.0},
        4.0: {"a": 0.4, "b": 0.4, "c": 0.1, "d": 0.0},
    }
    fit = fitted(ONE, rows)
    assert fit.moved == ("a", "b", "c"), "of d nothing is decided by it"
    assert fit.best == 2.0
    assert (fit.now, fit.inside) == (0.2, 0.0)


def test_a_run_that_decides_alone_is_worse_when_it_is_left_out() -> None:
    rows: dict[float, dict[str, float | None]] = {3.0: {"a": 0.5, "b": 0.1}, 2.0: {"a": 0.0, "b": 0.3}}
    fit = fitted(ONE, rows)
    assert fit.best == 2.0
    assert set(fit.chosen) == {2.0, 3.0}
    assert fit.left_out > fit.inside


def test_what_no_recorded_prediction_depends_on_is_said() -> None:
    fit = fitted(ONE, {3.0: {"a": 0.2, "b": None}, 2.0: {"a": 0.2, "b": 0.1}})
    assert fit.moved == ()
    assert "none of the recorded" in told(fit)


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda one: one.name)
def test_each_constant_is_where_it_is_said_to_be(constant: Constant) -> None:
    assert constant.current not in constant.values
    assert type(constant.current) is type(constant.values[0])
