"""Who is short of memory: the job that waits for its own pages, never the neighbour of one that does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.memory import Shortage, is_short, loop_stall_s, with_stalls
from bottleneck_doctor.model.diagnosis import StepCost

THRASH = Shortage(0.05, 0.6, 5e8, 0.0, 1000.0, 5e8, 7.0)


@pytest.mark.parametrize(
    ("shortage", "short"),
    [
        (THRASH, True),
        (replace(THRASH, again_bytes_per_s=0.0, swap_in_bytes_per_s=5e7), True),
        (replace(THRASH, limit_hits_per_s=None, loop_faults=0.0), False),  # a stranger thrashes
        (replace(THRASH, loop_faults=0.0), False),  # a data set larger than memory, read again and again
        (replace(THRASH, loop_faults=0.0, stalled=0.3), True),  # reclaim holds the job up at its limit
        (replace(THRASH, again_bytes_per_s=1e7), False),  # little of what is read comes again
        (Shortage(None, None, None, None, None, None, None), False),
    ],
)
def test_a_job_is_short_when_it_waits_itself_and_pages_come_again(shortage: Shortage, short: bool) -> None:
    assert is_short(shortage) is short


def test_the_stall_is_at_most_what_was_seen_and_what_the_faults_can_take() -> None:
    assert loop_stall_s(THRASH, 0.04) == pytest.approx(0.65 * 0.04)
    assert loop_stall_s(replace(THRASH, loop_faults=0.5), 0.04) == pytest.approx(0.5 * 0.02)
    assert loop_stall_s(replace(THRASH, loop_faults=0.0), 0.04) == 0.0
    assert loop_stall_s(replace(THRASH, reading=None), 0.04) == 0.0


def test_stalls_are_taken_from_idle_time_and_never_invented() -> None:
    first, second = with_stalls((StepCost(0.01, idle=0.03), StepCost(0.01, idle=0.002)), 0.01)
    assert (first.idle, first.memory) == (pytest.approx(0.02), pytest.approx(0.01))
    assert (second.idle, second.memory) == (0.0, pytest.approx(0.002))
