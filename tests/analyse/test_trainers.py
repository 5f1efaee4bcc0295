"""Processes of one job that train at the same time share its cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.model.profile import Profile
from tests.analyse.runs import run_of

MS = 1e-3


def beside(late: float = 0.0) -> Profile:
    """Decoding in the loop's own process on two cores, and another process that does the same, ``late`` s
    later."""
    one = run_of(cpu=10 * MS, idle=1 * MS)
    loop = one.loops[0]
    table = replace(loop.table, t=[t + late for t in loop.table.t])
    process = replace(one.processes[0], pid=2)
    return replace(one, loops=[loop, replace(loop, pid=2, table=table)], processes=[*one.processes, process])


def workers_gain(profile: Profile) -> float:
    """What a worker of its own would bring."""
    from bottleneck_doctor.analyse.predict import step_after
    from bottleneck_doctor.model.diagnosis import Change

    scenario = diagnose(profile).scenario
    assert scenario is not None
    return step_after(scenario, Change()) / step_after(scenario, Change(workers=2))


def test_a_trainer_alone_may_use_all_cores() -> None:
    found = diagnose(run_of(cpu=10 * MS, idle=1 * MS))
    assert found.scenario is not None
    assert (found.host.trainers, found.scenario.cores) == (1, 2.0)
    assert workers_gain(run_of(cpu=10 * MS, idle=1 * MS)) > 1.8


def test_two_that_train_at_the_same_time_have_half_each() -> None:
    found = diagnose(beside())
    assert found.scenario is not None
    assert (found.host.trainers, found.host.cores, found.scenario.cores) == (2, 2.0, 1.0)
    assert workers_gain(beside()) < 1.2, "the other process computes on the second core"


@pytest.mark.parametrize(("late", "trainers"), [(0.5, 2), (100.0, 1)])
def test_one_that_trains_later_shares_nothing(late: float, trainers: int) -> None:
    assert diagnose(beside(late)).host.trainers == trainers
