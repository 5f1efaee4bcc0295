"""What a prediction adds to the replay."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.predict import DISTURBED, relieved, speedup_of, step_after
from bottleneck_doctor.analyse.replay import step_seconds
from bottleneck_doctor.model.diagnosis import BatchCost, Change, Scenario, StepCost

ALONE = Scenario(works=(BatchCost(0.03),), costs=(StepCost(0.01),), cores=2.0)


def replayed(scenario: Scenario, change: Change) -> float:
    return step_seconds(scenario) / step_after(scenario, change)


def test_the_rest_of_a_step_gains_where_the_loop_no_longer_does_what_slowed_it_down() -> None:
    cured = Change(cpu=0.0)
    assert replayed(ALONE, cured) == pytest.approx(4.0)
    assert speedup_of(ALONE, cured) == pytest.approx(4.0 / (1 - 0.75 * DISTURBED))


@pytest.mark.parametrize("change", [Change(workers=2), Change(cpu=0.5, cores=4.0)])
def test_another_setting_leaves_the_work_to_be_done(change: Change) -> None:
    assert speedup_of(ALONE, change) == pytest.approx(replayed(ALONE, change))


def test_workers_have_kept_it_from_the_loop_already() -> None:
    beside = Scenario(works=(BatchCost(0.03),), costs=(StepCost(0.01),), cores=2.0, workers=1)
    assert speedup_of(beside, Change(cpu=0.5)) == pytest.approx(replayed(beside, Change(cpu=0.5)))


def test_waiting_for_a_slower_rank_disturbs_nothing() -> None:
    ranks = Scenario(works=(BatchCost(1e-4),), costs=(StepCost(0.01, straggler=0.01),), cores=2.0)
    assert speedup_of(ranks, Change(straggler=0.0)) == pytest.approx(replayed(ranks, Change(straggler=0.0)))


def test_what_gains_nothing_or_costs_is_not_made_better() -> None:
    assert relieved(1.0) == 1.0
    assert relieved(0.8) == 0.8
