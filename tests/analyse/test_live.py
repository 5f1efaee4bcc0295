"""The pace between two looks, and the machine in the last seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.live_diagnosis import (
    beginning,
    is_stalled,
    pace,
    ranks_of,
    recent,
    surroundings,
)
from bottleneck_doctor.model.instruments import Sample, Series
from bottleneck_doctor.model.run import Machine, PacePoint, Progress, Surroundings

S = 1_000_000_000
MACHINE = Machine("host", "6.1", "cpu", 4, 2.0)


def rank(pid: int, steps: int, last_s: float, wait_s: float) -> Progress:
    return Progress(pid, steps, steps, int(wait_s * S), S, int(last_s * S))


def test_the_pace_is_what_happened_between_the_looks() -> None:
    assert pace([rank(1, 100, 10, 5)], [rank(1, 120, 14, 6)]) == PacePoint(0.2, 0.25)


def test_of_several_ranks_the_slowest_step_and_the_longest_wait_are_shown() -> None:
    before = [rank(1, 100, 10, 0), rank(2, 100, 10, 0)]
    after = [rank(1, 110, 12, 1), rank(2, 110, 15, 1)]
    assert pace(before, after) == PacePoint(0.5, 0.5)


def test_a_process_that_fell_behind_is_no_rank_of_this_training() -> None:
    after = [rank(1, 110, 12, 1), rank(2, 60, 15, 1)]
    assert ranks_of(after) == after[:1]
    assert pace([rank(1, 100, 10, 0), rank(2, 50, 10, 0)], after) == PacePoint(0.2, 0.5)


@pytest.mark.parametrize("after", [[], [rank(1, 100, 10, 5)], [rank(2, 120, 14, 6)]])
def test_without_a_new_step_there_is_no_pace(after: list[Progress]) -> None:
    assert pace([rank(1, 100, 10, 5)], after) == PacePoint(None, None)


def test_a_watcher_who_comes_late_knows_the_pace_of_the_whole_run() -> None:
    late = rank(1, 101, 51, 25)
    assert pace([beginning(late)], [late]) == PacePoint(0.5, 0.5)


@pytest.mark.parametrize(
    ("silent_s", "step_s", "stalled"),
    [(9, 0.1, False), (11, 0.1, True), (60, 10.0, False), (101, 10.0, True), (11, None, True)],
)
def test_slow_steps_are_no_standstill(silent_s: float, step_s: float | None, stalled: bool) -> None:
    assert is_stalled(silent_s, step_s) is stalled


def test_recent_samples_are_the_last_seconds_and_a_few_of_each_sensor() -> None:
    often = [Sample(t * S, "system", {}) for t in range(60)]
    rarely = [Sample(t * S, "holdings", {}) for t in range(0, 60, 10)]
    kept = recent(sorted([*often, *rarely], key=lambda one: one.t_ns))
    assert [one.t_ns // S for one in kept if one.sensor == "system"] == list(range(49, 60))
    assert [one.t_ns // S for one in kept if one.sensor == "holdings"] == [30, 40, 50]
    assert recent([]) == []


def test_the_machine_is_read_off_the_counters() -> None:
    series = Series(
        [0.0, 10.0],
        {
            "cpu_busy_s": [100.0, 125.0],
            "job_cpu_s": [10.0, 25.0],
            "pressure_cpu_some_s": [1.0, 6.0],
            "pressure_io_some_s": [None, None],
            "gpu0_busy_share": [0.5, 0.75],
            "gpu0_memory_used_bytes": [1.0, None],
            "gpu0_memory_bytes": [4.0, None],
        },
    )
    seen = surroundings(series, MACHINE)
    assert (seen.cores, seen.job_cores, seen.pressure) == (2.0, 1.5, {"cpu": 0.5})
    assert seen.foreign_cores == pytest.approx(1.0 - 0.08)
    assert (seen.gpu_busy, seen.gpu_memory) == ([0.75], [0.25])


def test_what_was_not_measured_is_not_shown() -> None:
    assert surroundings(Series(), MACHINE) == Surroundings(2.0)
    assert surroundings(Series([1.0], {"job_cpu_s": [3.0]}), replace(MACHINE, cores=1.0)) == Surroundings(1.0)
