"""What was timed of the storage decides what more readers bring, where the training's reads cost as much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.reads import at_depth, held, judge_reads, served, serves_more
from bottleneck_doctor.analyse.replay import step_seconds
from bottleneck_doctor.model.diagnosis import BatchCost, HostLoad, Inputs, Scenario, StepCost
from bottleneck_doctor.model.instruments import Calibration
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Run

ASLEEP_S = 1e-4
# 512 reads a batch, each asleep for 0.1 ms
INPUTS = Inputs(batches=99, wall=0.06, cpu=0.01, storage=512 * ASLEEP_S, reads=512.0, opens=0.0,
                storage_bytes=2e6, read_bytes=2e6)  # fmt: skip


def timed(*asleep: float, subject: str = "read") -> Profile:
    """Reads at depth 1, 2, 4, 8 that slept so many times 0.1 ms, with 0.02 ms of CPU each."""
    rows = [
        Calibration("1:1", subject, "cold", 2e-5 + ASLEEP_S * one, 2e-5, 100, 2**place)
        for place, one in enumerate(asleep)
    ]
    run = Run(["python"], None, "/", "", 1.0, 0)
    return Profile(run, Machine("", "", "", 2, 2.0), calibrations=rows)


def test_the_curve_is_relative_to_the_present_number_of_readers() -> None:
    curve = served(timed(1, 1, 2, 4), "1:1", INPUTS, 2.0)
    assert curve == ((1.0, 1.0), (2.0, 1.0), (4.0, pytest.approx(2.0)), (8.0, pytest.approx(4.0)))
    assert at_depth(curve, 3.0) == pytest.approx(1.5)
    assert at_depth(curve, 16.0) == pytest.approx(8.0)


def test_who_asks_for_less_is_served_no_slower() -> None:
    curve = served(timed(1, 3, 1, 1), "1:1", INPUTS, 1.0)
    assert [seconds for _, seconds in curve] == [pytest.approx(1.0)] * 4


@pytest.mark.parametrize("factor", [0.3, 3.0])
def test_reads_that_cost_something_else_are_not_the_trainings(factor: float) -> None:
    assert served(timed(factor, factor, factor, factor), "1:1", INPUTS, 1.0) == ()


def test_nothing_timed_or_another_loader_gives_no_curve() -> None:
    assert served(timed(), "1:1", INPUTS, 1.0) == ()
    assert served(timed(1, 1, 1, 1), "2:2", INPUTS, 1.0) == ()


def test_small_files_are_counted_by_their_opens() -> None:
    files = replace(INPUTS, opens=512.0, reads=1024.0)
    assert served(timed(1, 1, 1, 1, subject="file"), "1:1", files, 1.0)


@pytest.mark.parametrize(("asleep", "pace"), [((1, 1, 1, 1), "latency"), ((1, 2, 4, 8), "device")])
def test_storage_that_serves_no_more_is_at_its_limit(asleep: tuple[float, ...], pace: str) -> None:
    assert judge_reads(timed(*asleep), "1:1", 1, INPUTS, HostLoad(cores=2.0), 0.06).pace == pace


def test_more_readers_at_a_full_device_bring_nothing() -> None:
    full = served(timed(1, 2, 4, 8), "1:1", INPUTS, 1.0)
    assert serves_more(full, 1.0) == pytest.approx(1.0)
    base = Scenario(
        (BatchCost(0.001, storage=0.05),), (StepCost(0.0, 0.001),), workers=1, cores=4.0, served=full
    )
    alone, four = step_seconds(base), step_seconds(replace(base, workers=4))
    assert four == pytest.approx(alone, rel=0.05)


def test_a_parallel_device_gives_each_reader_as_much() -> None:
    free = served(timed(1, 1, 1, 1), "1:1", INPUTS, 1.0)
    base = Scenario(
        (BatchCost(0.001, storage=0.05),), (StepCost(0.0, 0.001),), workers=1, cores=4.0, served=free
    )
    assert step_seconds(replace(base, workers=4)) == pytest.approx(step_seconds(base) / 4, rel=0.05)


def test_bursts_above_a_limit_that_is_set_promise_nothing() -> None:
    assert serves_more(held(served(timed(1, 1, 2, 2), "1:1", INPUTS, 2.0), 2.0), 2.0) == pytest.approx(1.0)
