"""Small bars in a row: the newest at the right, blanks where nothing was measured."""

from __future__ import annotations

import pytest

from bottleneck_doctor.render.watch import can_draw, sparkline


@pytest.mark.parametrize(
    ("values", "columns", "top", "drawn"),
    [
        ([0, 1], 8, None, "▁█"),
        ([0.0, 0.5, 1.0], 8, 1.0, "▁▅█"),
        ([1.0, None, 1.0], 8, None, "█ █"),
        ([0.5], 8, 1.0, "▅"),
        ([0, 0], 8, None, "▁▁"),
        ([None], 8, None, " "),
        ([2.0], 8, 1.0, "█"),
        ([], 8, None, ""),
        ([1.0], 0, None, ""),
        ([1.0], -3, None, ""),
    ],
)
def test_bars_stand_for_shares_of_the_top(
    values: list[float | None], columns: int, top: float | None, drawn: str
) -> None:
    assert sparkline(values, columns, top) == drawn


def test_more_values_than_columns_are_put_together_and_none_is_lost() -> None:
    assert sparkline([1.0] * 10 + [0.0] * 10, 4, 1.0) == "██▁▁"
    assert len(sparkline([1.0] * 299, 30)) == 30


def test_a_terminal_that_cannot_say_them_gets_none() -> None:
    assert can_draw("utf-8")
    assert not can_draw("ascii")
    assert not can_draw("latin-1")
