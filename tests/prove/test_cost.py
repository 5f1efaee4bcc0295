"""What runs cost: estimated by the run that was watched, within a budget, under limits that follow."""

from __future__ import annotations

import math

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.model.proof import ComparedSteps, Missed
from bottleneck_doctor.prove.limits import budget_of, first_batch_s, limits_of, plan_of, run_seconds
from tests.analyse.runs import run_of

from .simulated_runs import BASE, remedy

SEEN = diagnose(run_of(compute=0.02, steps=300, epochs=1, noise=0.0))


def test_the_budget_is_five_minutes_or_ten_first_runs_unless_it_is_given() -> None:
    assert budget_of(None, 12.0) == 120.0
    assert budget_of(None, 100.0) == 300.0
    assert budget_of(900.0, 12.0) == 900.0
    assert budget_of(None, math.inf) == 300.0


def test_a_run_takes_its_start_its_steps_and_its_end() -> None:
    start_s = first_batch_s(SEEN)
    end_s = SEEN.profile.run.duration_s - SEEN.loop.table.t[-1]  # type: ignore[union-attr]
    assert run_seconds(SEEN, ComparedSteps(10, 110)) == pytest.approx(start_s + 110 * 0.02 + end_s, rel=0.02)


def test_the_plan_says_what_two_rounds_cost_and_what_all_may() -> None:
    plan = plan_of(
        SEEN, [BASE, remedy("x"), remedy("y")], [Missed("z", "why")], ComparedSteps(10, 110), 1000.0
    )
    assert plan.least_s == pytest.approx(7 * plan.run_s)
    assert plan.least_s < plan.most_s <= 1000.0
    assert plan.missed == [Missed("z", "why")]


def test_no_plan_costs_more_than_the_budget() -> None:
    plan = plan_of(SEEN, [BASE, remedy("x")], [], ComparedSteps(10, 110), 10.0)
    assert plan.most_s == 10.0


def test_a_plan_without_an_arm_costs_nothing() -> None:
    assert plan_of(SEEN, [BASE], [], ComparedSteps(10, 110), 100.0).most_s == 0.0


def test_a_trial_may_take_longer_than_the_baseline_but_not_for_ever() -> None:
    limits = limits_of(SEEN, ComparedSteps(10, 110))
    assert limits.steps == 110
    assert run_seconds(SEEN, ComparedSteps(10, 110)) < limits.seconds < 300


def test_where_the_machine_has_become_busy_a_trial_may_take_longer() -> None:
    calm, busy = (limits_of(SEEN, ComparedSteps(10, 110), slowest_s) for slowest_s in (0.0, 60.0))
    assert busy.seconds > 3 * 60 > calm.seconds
    assert busy.first_batch_s > calm.first_batch_s
