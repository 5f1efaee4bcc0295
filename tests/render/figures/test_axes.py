"""Ticks are round, few, and in words."""

from __future__ import annotations

import math

import pytest

from bottleneck_doctor.render.figures.axes import clock, ticks


@pytest.mark.parametrize(
    ("name", "top", "texts"),
    [
        ("step_time_s", 0.055, ["0 s", "20 ms", "40 ms"]),
        ("data_wait_share", 1.0, ["0 %", "50 %", "100 %"]),
        ("job_cores", 3.9, ["0", "1", "2", "3"]),
        ("job_rss_bytes", 3.1 * 2**30, ["0 B", "1 GiB", "2 GiB", "3 GiB"]),
        ("disk_read_bytes_per_s", 40 * 2**20, ["0 B/s", "10 MiB/s", "20 MiB/s", "30 MiB/s", "40 MiB/s"]),
        ("step_time_s", 0.0, ["0 s"]),
    ],
)
def test_ticks_are_round_and_in_words(name: str, top: float, texts: list[str]) -> None:
    assert ticks(name, top)[1] == texts


@pytest.mark.parametrize(
    "top", [10.0**power * digit for power in range(-9, 13) for digit in (1, 1.7, 3, 7.2)]
)
@pytest.mark.parametrize("name", ["a_s", "a_share", "a_bytes", "a_cores"])
def test_there_are_always_a_few_ticks_below_the_top(name: str, top: float) -> None:
    values, texts = ticks(name, top)
    assert 2 <= len(values) <= 5
    assert values[-1] <= top * 1.01
    assert len(texts) == len(values)


def test_ticks_of_numbers_that_are_none_are_a_zero() -> None:
    assert ticks("a_s", math.nan)[0] == [0.0]


def test_the_clock_fits_the_length() -> None:
    assert [clock(length).unit for length in (0.04, 30, 900, 30_000)] == ["ms", "s", "min", "h"]
