"""The pace between two looks at a run."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.live_diagnosis import is_stalled, pace, ranks_of
from bottleneck_doctor.model.run import Progress

S = 1_000_000_000


def rank(pid: int, steps: int, last_s: float, wait_s: float) -> Progress:
    return Progress(pid, steps, steps, int(wait_s * S), S, int(last_s * S))


def test_the_pace_is_what_happened_between_the_looks() -> None:
    assert pace([rank(1, 100, 10, 5)], [rank(1, 120, 14, 6)]) == (0.2, 0.25)


def test_of_several_ranks_the_slowest_step_and_the_longest_wait_are_shown() -> None:
    before = [rank(1, 100, 10, 0), rank(2, 100, 10, 0)]
    after = [rank(1, 110, 12, 1), rank(2, 110, 15, 1)]
    assert pace(before, after) == (0.5, 0.5)


def test_a_process_that_fell_behind_is_no_rank_of_this_training() -> None:
    after = [rank(1, 110, 12, 1), rank(2, 60, 15, 1)]
    assert ranks_of(after) == after[:1]
    assert pace([rank(1, 100, 10, 0), rank(2, 50, 10, 0)], after) == (0.2, 0.5)


@pytest.mark.parametrize("after", [[], [rank(1, 100, 10, 5)], [rank(2, 120, 14, 6)]])
def test_without_a_new_step_there_is_no_pace(after: list[Progress]) -> None:
    assert pace([rank(1, 100, 10, 5)], after) == (None, None)


@pytest.mark.parametrize(
    ("silent_s", "step_s", "stalled"),
    [(9, 0.1, False), (11, 0.1, True), (60, 10.0, False), (101, 10.0, True), (11, None, True)],
)
def test_slow_steps_are_no_standstill(silent_s: float, step_s: float | None, stalled: bool) -> None:
    assert is_stalled(silent_s, step_s) is stalled
