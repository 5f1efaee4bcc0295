"""What a trial may take follows from a baseline that went well, with room for a busy machine."""

from __future__ import annotations

from bottleneck_doctor.prove.limits import SILENT_S, limits_after


def test_a_trial_may_take_some_times_what_the_baseline_took_and_a_moment_more() -> None:
    limits = limits_after(300, run_s=20.0, step_s=0.05, first_batch_s=4.0)
    assert limits.steps == 300
    assert 20.0 < limits.seconds < 120.0
    assert 4.0 < limits.first_batch_s < limits.seconds


def test_silence_is_measured_by_the_step_and_by_the_longest_gap_there_was() -> None:
    quick = limits_after(300, 20.0, 0.001, 4.0).silence_s
    slow = limits_after(30, 200.0, 5.0, 4.0).silence_s
    evaluating = limits_after(300, 200.0, 0.1, 4.0, longest_gap_s=45.0).silence_s
    assert quick == SILENT_S
    assert slow == 100.0
    assert evaluating > 90.0
