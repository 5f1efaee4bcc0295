"""A few hundred hostile profiles and files of rows; ``python -m tests.fuzz --cases 1000000`` tries more."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import SLOW_S, one, profile

REST = [pytest.param(first, marks=pytest.mark.long) for first in range(50, 300, 50)]


@pytest.mark.parametrize("first", [0, *REST])
def test_nothing_hostile_is_more_than_refused_or_shown(first: int) -> None:
    for seed in range(first, first + 50):
        _, taken = one(seed)
        assert taken < 5 * SLOW_S, seed  # a busy machine takes its time


def test_a_case_is_made_of_its_seed_alone() -> None:
    assert profile(17) == profile(17) != profile(18)
