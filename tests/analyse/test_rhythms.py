"""Stalls that come back, in synthetic runs: where they come from and how far apart they are."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.rhythms import regular_distance
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.instruments import Operation
from bottleneck_doctor.model.loops import Epochs, Loop, StepTable
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of

MS = 1e-3
PLACE = Location("train.py", 31)


def stalled(part: str, places: list[int], took: float = 0.4, **traits: float) -> Profile:
    """A run in which these steps take so much longer; ``part`` names the column, or "" for the loop's own."""
    run = run_of(**{"cpu": 1 * MS, "compute": 9 * MS, "steps": 400, **traits})
    table = run.loops[0].table
    for place in places:
        table.wall_s[place] += took
        if part:
            getattr(table, part)[place] += took
        else:
            table.cpu_s[place] = (table.cpu_s[place] or 0.0) + took
        table.t[place:] = [t + took for t in table.t[place:]]
    return run


@pytest.mark.parametrize(
    ("column", "part"), [("checkpoint_s", "checkpoint"), ("logging_s", "logging"), ("collect_s", "collect")]
)
def test_stalls_belong_to_the_part_that_grows(column: str, part: str) -> None:
    (rhythm,) = diagnose(stalled(column, list(range(49, 400, 50)))).rhythms
    assert (rhythm.part, rhythm.count, rhythm.every_steps) == (part, 8, 50)
    assert rhythm.each_s == pytest.approx(0.4, rel=0.02)
    assert rhythm.share == pytest.approx(8 * 0.4 / (8 * 0.4 + 390 * 10 * MS), rel=0.03)


def test_a_checkpoints_line_is_named() -> None:
    run = stalled("checkpoint_s", list(range(49, 400, 50)))
    ends = [run.loops[0].table.t[place] for place in range(49, 400, 50)]
    save = Operation(
        "checkpoint", 1, 0, "save", 8, 3.2, 1.0, 0.4, PLACE, events=[(t - 0.4, 0.4) for t in ends]
    )
    once = Operation(
        "checkpoint", 1, 0, "save", 1, 9.0, 1.0, 9.0, Location("train.py", 7), events=[(0.1, 9.0)]
    )
    (rhythm,) = diagnose(replace(run, operations=[once, save])).rhythms
    assert rhythm.location == PLACE


def test_what_no_hook_explains_is_a_finding_of_its_own_and_split_into_cpu_and_sleep() -> None:
    (rhythm,) = diagnose(stalled("", list(range(39, 400, 40)))).rhythms
    assert rhythm.part == "compute"
    assert rhythm.cpu_s == pytest.approx(0.4, rel=0.05)


@pytest.mark.parametrize(
    "places",
    [
        [200],
        [20, 70, 310],
        sorted(random.Random(4).sample(range(20, 400), 9)),
        list(range(20, 400, 2)),
        list(range(20, 400, 3)),
    ],
    ids=["one", "three", "now and then", "every other step", "every third step"],
)
def test_stalls_without_a_regular_distance_are_no_rhythm(places: list[int]) -> None:
    assert diagnose(stalled("", places, took=0.05)).rhythms == []


def test_a_distance_needs_four_stalls_and_may_miss_one() -> None:
    assert regular_distance([50, 100, 150], 1) is None
    assert regular_distance([50, 100, 150, 250, 300], 1) == 50
    assert regular_distance([50, 100, 150, 200], 30) is None, "rows too coarse to tell"


def test_an_evaluation_every_hundred_steps_is_one() -> None:
    run = run_of(cpu=1 * MS, compute=9 * MS, steps=500)
    begins = [run.loops[0].table.t[place] + 1e-4 for place in range(99, 500, 100)]
    epochs = Epochs(begins, [0.0] * 5, [0.0] * 5, [10] * 5)
    other = Loop("1:2", 1, 0, "evaluation", 50, 2.0, 0.1, epochs, StepTable())
    (rhythm,) = diagnose(replace(run, loops=[*run.loops, other])).rhythms
    assert (rhythm.part, rhythm.count, rhythm.every_steps) == ("evaluation", 5, 100)
    assert rhythm.each_s == pytest.approx(0.4)
