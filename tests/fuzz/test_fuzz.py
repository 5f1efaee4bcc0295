"""A hundred hostile profiles and files of rows; ``python -m tests.fuzz --cases 1000000`` tries more."""

import json

import pytest

from tests.fuzz.__main__ import IDS, SLOW_S, examine, one, profile, recorded

REST = [pytest.param(first, marks=pytest.mark.long) for first in range(50, 100, 50)]


@pytest.mark.parametrize("first", [0, *REST])
def test_nothing_hostile_is_more_than_refused_or_shown(first: int) -> None:
    for seed in range(first, first + 50):
        _, taken = one(seed)
        assert taken < 5 * SLOW_S, seed  # a busy machine takes its time


@pytest.mark.parametrize("text", IDS, ids=lambda text: ascii(text[:12]))
def test_an_id_may_be_any_text(text: str) -> None:
    for base in recorded(whole=False)[:1]:
        whole = json.loads(base)
        for loop in whole["loops"]:
            loop["loader"] = text
        for stack in whole["stacks"] if len(text) < 10_000 else ():  # a profile has 2 MiB at most
            stack["frames"] = [text, *stack["frames"][:-1], text]
        assert examine(json.dumps(whole).encode()) == "used"


def test_a_case_is_made_of_its_seed_alone() -> None:
    assert profile(17) == profile(17) != profile(18)
