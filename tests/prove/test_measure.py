"""One run's measure, what runs cost, and nothing where there is nothing to measure."""

import math
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.proof import Arm, Attempt, ComparedSteps, Missed
from bottleneck_doctor.model.run import Order, Treated, Treatment, Trial
from bottleneck_doctor.prove.measure import attempt_of
from bottleneck_doctor.prove.trial_limits import SILENT_S, budget_of, limits_of, plan_of
from bottleneck_doctor.prove.trials import Finished
from tests.analyse.runs import run_of

from .simulated_runs import BASE, remedy

ARM = Arm("workers-auto", "remedy", treatments=(Treatment("loader"), Treatment("environment")))
APPLIED = Trial(Order(list(ARM.treatments)), [Treated("loader", 7), Treated("environment", 7)])
SPAN = ComparedSteps(20, 220)


def measured(profile: Profile, span: ComparedSteps = SPAN) -> Attempt:
    return attempt_of(ARM, Finished("measured", "", profile, 9.0, 1 << 20), span)


def run(trial: Trial | None = APPLIED, **traits: object) -> Profile:
    return replace(run_of(compute=0.01, noise=0.0, **traits), trial=trial)


def test_the_mean_step_is_that_of_the_span() -> None:
    profile = run()
    loop = profile.loops[0]
    walls = [0.01 if place < 150 else 0.03 for place in range(len(loop.table.t))]
    times, now = [], 3.0
    for wall in walls:
        now += wall
        times.append(now)
    table = replace(loop.table, wall_s=walls, t=times)
    profile = replace(profile, loops=[replace(loop, table=table)])
    found = measured(profile, ComparedSteps(100, 200))
    assert found.step_s == pytest.approx(0.02)
    assert found.steps == 100
    assert (found.run_s, found.memory_bytes, found.trial) == (9.0, 1 << 20, APPLIED)


def test_evaluation_between_steps_counts_in_the_whole_run_only() -> None:
    profile = run()
    loop = profile.loops[0]
    later = [t + (5.0 if place >= 100 else 0.0) for place, t in enumerate(loop.table.t)]
    profile = replace(profile, loops=[replace(loop, table=replace(loop.table, t=later))])
    found = measured(profile)
    assert found.step_s is not None
    assert found.whole_s is not None
    assert found.whole_s - found.step_s == pytest.approx(5.0 / 200, rel=0.05)


def test_a_run_that_ended_too_early_is_too_short() -> None:
    found = measured(run(), ComparedSteps(100, 1000))
    assert (found.outcome, found.step_s) == ("too-short", None)
    assert "1000 are compared" in found.why


def test_a_run_without_a_training_loop_is_too_short() -> None:
    empty = replace(run(), loops=[])
    assert measured(empty).outcome == "too-short"


@pytest.mark.parametrize(
    ("treated", "why"),
    [
        ([Treated("loader", 7), Treated("environment", 7)], ""),
        ([Treated("loader", 7, "not here"), Treated("loader", 8), Treated("environment", 7)], ""),
        ([Treated("environment", 7)], "nothing was seen to which loader applies"),
        ([Treated("loader", 7, "in use"), Treated("environment", 7)], "in use"),
    ],
)
def test_each_treatment_must_be_applied_in_one_process_at_least(treated: list[Treated], why: str) -> None:
    found = measured(run(Trial(APPLIED.order, treated)))
    assert (found.outcome, found.why) == ("not-applied" if why else "measured", why)


SEEN = diagnose(run_of(compute=0.02, steps=300, epochs=1, noise=0.0))


def test_the_budget_is_five_minutes_or_ten_first_runs_unless_it_is_given() -> None:
    assert budget_of(None, 12.0) == 120.0
    assert budget_of(None, 100.0) == 300.0
    assert budget_of(900.0, 12.0) == 900.0
    assert budget_of(None, math.inf) == 300.0


def test_the_plan_says_what_two_rounds_cost_and_what_all_may() -> None:
    plan = plan_of(
        SEEN, [BASE, remedy("x"), remedy("y")], [Missed("z", "why")], ComparedSteps(10, 110), 1000.0
    )
    assert plan.least_s == pytest.approx(7 * plan.run_s)
    assert plan.least_s < plan.most_s <= 1000.0
    assert plan.missed == [Missed("z", "why")]
    assert plan_of(SEEN, [BASE, remedy("x")], [], ComparedSteps(10, 110), 10.0).most_s == 10.0
    assert plan_of(SEEN, [BASE], [], ComparedSteps(10, 110), 100.0).most_s == 0.0, "nothing is tried"


def test_where_the_machine_has_become_busy_a_trial_may_take_longer() -> None:
    calm, busy = (limits_of(SEEN, ComparedSteps(10, 110), slowest_s) for slowest_s in (0.0, 60.0))
    assert busy.seconds > 3 * 60 > calm.seconds
    assert busy.first_batch_s > calm.first_batch_s


def test_a_trial_may_be_silent_as_long_as_the_baseline_was_and_longer() -> None:
    span, loop = ComparedSteps(10, 110), SEEN.loop
    assert loop is not None
    times = [t + (45.0 if place > 100 else 0.0) for place, t in enumerate(loop.table.t)]
    evaluating = replace(SEEN, loop=replace(loop, table=replace(loop.table, t=times)))
    assert limits_of(SEEN, span).silence_s == SILENT_S
    assert limits_of(evaluating, span).silence_s > 90.0
