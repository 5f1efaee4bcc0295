"""Recorded runs of trainings by another author, diagnosed again: what they showed may not get worse.

No training is started: `python -m tests.others --keep` filed profiles, and how long each cure trained.
"""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest

from tests.lab.judge import Judgement
from tests.others.__main__ import NAMES, again, read

FIRST_RIGHT = 21  # of 22; the other begins with `keep-freed-memory`
SPEEDUP_MEDIAN = 0.15
BEST_FIRST = 0.9  # of those where something was tried


@cache
def judgement(name: str) -> Judgement:
    return again(read(name))


@pytest.mark.parametrize("name", NAMES)
def test_bound_and_cause_are_right(name: str) -> None:
    found = judgement(name)
    assert (found.bound_right, found.cause_right) == (True, True), (found.bound, found.cause)


def test_first_remedies_are_right() -> None:
    wrong = [one.name for one in map(judgement, NAMES) if not one.remedy_right]
    assert len(NAMES) - len(wrong) >= FIRST_RIGHT, wrong


def test_the_first_of_those_tried_brings_most() -> None:
    found = [one.best_first for one in map(judgement, NAMES) if one.best_first is not None]
    assert sum(found) >= BEST_FIRST * len(found)


def test_speedups_come_as_promised() -> None:
    tried = [one for name in NAMES for one in judgement(name).tried]
    assert median([abs(one.likely / one.measured - 1) for one in tried if one.likely]) <= SPEEDUP_MEDIAN


def test_what_is_promised_slows_nothing_down() -> None:
    assert [(name, one.remedy) for name in NAMES for one in judgement(name).tried if one.harmful] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_cure_fits_its_script(name: str) -> None:
    training = read(name)
    for cure in training.cures:
        compile(training.script(cure), f"{name} with {cure}", "exec")
