"""One thread beside idle cores and a crowd of threads are the cause; what is not known is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.analyse.threads import asleep_share, judge_threads, resting_share
from bottleneck_doctor.analyse.verdict import Trust, decide
from bottleneck_doctor.model.computing import Computing, DispatchBreakdown, ScriptSettings
from bottleneck_doctor.model.diagnosis import BatchCost, CostShares, HostLoad, Inputs, Scenario, StepCost
from bottleneck_doctor.model.fetches import Blocked
from bottleneck_doctor.model.instruments import Operator, Stack
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.runs import run_of

BASE = Scenario((BatchCost(2e-4),), (StepCost(0.02),), cores=4.0)
TORCH = "/x/site-packages/torch"
IDLE = HostLoad(cores=4.0, job_cores=1.0, foreign_cores=0.0)


def run(*threads: int, large: float = 0.9, environment: str = "1") -> Profile:
    """A run whose trainers compute with these numbers of threads; ``environment`` handed that number down."""
    trainers = [
        Process(1 + place, 0, "trainer", 0.0, torch_threads=count) for place, count in enumerate(threads)
    ]
    anatomy = DispatchBreakdown(1, 50, 0.02, 0.02, 0.02, 0.019, 0.02 * large, 0.0, 0.0)
    switches = ScriptSettings(1, environment={"OMP_NUM_THREADS": environment})
    computing = Computing(switches=[switches], anatomies=[anatomy])
    return replace(run_of(compute=0.02), processes=trainers, computing=computing)


def trouble(profile: Profile, host: HostLoad = IDLE, held: float = 0.0, **scene: Any) -> str:
    return judge_threads(profile, profile.loops[0], replace(BASE, **scene), host, held).trouble


def test_one_thread_beside_idle_cores_is_too_few() -> None:
    profile = run(1)
    judged = judge_threads(profile, profile.loops[0], BASE, IDLE, 0.0)
    assert (judged.trouble, judged.wanted) == ("few", 4)
    assert judged.factor[0] == pytest.approx(1.0)
    assert 1.5 < judged.factor[1] < judged.factor[2] < 4


def test_who_asked_for_one_thread_changes_nothing() -> None:
    handed_down, asked_for = run(1), run(1, environment="")
    assert judge_threads(asked_for, asked_for.loops[0], BASE, IDLE, 0.0) == judge_threads(
        handed_down, handed_down.loops[0], BASE, IDLE, 0.0
    )


@pytest.mark.parametrize(
    ("profile", "host"),
    [
        (run(1, large=0.2), IDLE),
        (run(1), replace(IDLE, job_cores=3.9)),
        (run(1), replace(IDLE, foreign_cores=1.0)),
        (run(1), replace(IDLE, job_cores=None)),
        (run(1), replace(IDLE, accelerated=True)),
        (run(4), IDLE),
    ],
)
def test_else_one_thread_is_left_alone(profile: Profile, host: HostLoad) -> None:
    assert trouble(profile, host) == ""


def test_more_threads_than_cores_are_too_many_when_they_hold_the_loop_up() -> None:
    assert trouble(run(16, large=0.2), held=0.4) == "many"
    assert trouble(run(16, large=0.2), held=0.02) == ""
    assert trouble(run(3, 3), held=0.4) == "many"  # two ranks share the cores


def test_workers_in_the_crowd_answer_for_the_cores_that_they_keep_busy() -> None:
    profile = run(16)
    asleep, busy = (
        judge_threads(profile, profile.loops[0], replace(BASE, workers=2, works=works), IDLE, 0.4)
        for works in ((BatchCost(1e-3, wait=0.039),), (BatchCost(0.04),))
    )
    assert asleep.trouble == busy.trouble == "many"
    assert asleep.wanted == 4, "workers that sleep want no core"
    assert busy.wanted < 4


def test_a_crowd_that_lets_the_loop_sleep_holds_it_up_too() -> None:
    costs, two = (StepCost(0.01, idle=0.01),), replace(IDLE, cores=2.0)
    assert trouble(run(4, large=0.2), two, cores=2.0, costs=costs) == ""
    asleep, profile = replace(BASE, cores=2.0, costs=costs, shares=CostShares(asleep=1.0)), run(4, large=0.2)
    judged = judge_threads(profile, profile.loops[0], asleep, two, 0.0)
    assert judged.trouble == "many"
    assert judged.factor[1] == pytest.approx(2.0, rel=0.02), "half of the step"
    assert judged.most is not None, "what they spin away besides is not measured"
    assert judged.most > judged.factor[2]


def test_sleeping_in_the_model_is_told_from_sleeping_elsewhere() -> None:
    backward, other = f"backward ({TORCH}/autograd/graph.py:1)", "wait (train.py:9)"
    stacks = [
        Stack(1, "trainer", "MainThread", [backward], 100, 40),
        Stack(1, "trainer", "MainThread", [other], 20, 0),
    ]
    profile = replace(run(4), stacks=stacks)
    assert asleep_share(profile, profile.loops[0]) == pytest.approx(0.75)
    assert asleep_share(run(4), profile.loops[0]) == 0.0


@pytest.mark.parametrize(
    ("looks", "share"),
    [({"network": 60, "running": 40}, 0.25), ({"network": 15, "lock": 45}, 0.0625), ({"network": 5}, 0.0)],
)
def test_what_the_loops_own_lines_sleep_for_is_neither_data_nor_model(
    looks: dict[str, int], share: float
) -> None:
    """Of sleep in locks nothing: it may be for other threads of the model."""
    backward, other = f"backward ({TORCH}/autograd/graph.py:1)", "wait (train.py:9)"
    stacks = [
        Stack(1, "trainer", "MainThread", [backward], 100, 40),
        Stack(1, "trainer", "MainThread", [other], 20, 0),
    ]
    known = replace(run(4), stacks=stacks, blocked=[Blocked("", [1.0], [looks], pid=1)])
    assert resting_share(known, known.loops[0]) == pytest.approx(share)


def test_large_operators_wait_for_all_threads_although_no_clock_says_so() -> None:
    """Threads that wait for the last of them spin: to the kernel that is computing."""
    profile = run(16)
    operators = [Operator("aten::addmm", 20, 0.018), Operator("aten::view", 200, 0.002)]
    few = judge_threads(profile, profile.loops[0], BASE, IDLE, 0.0)
    many = judge_threads(replace(profile, operators=operators), profile.loops[0], BASE, IDLE, 0.0)
    assert (few.trouble, few.wanted, few.factor) == ("many", 4, pytest.approx((1.0, 1.2, 1.4)))
    assert 1.5 < many.factor[0] < many.factor[1] < many.factor[2]
    busy = replace(IDLE, foreign_cores=1.0)
    assert trouble(profile, busy) == "", "strangers would hold one thread up as well"


def test_strangers_are_left_their_part_of_the_blame() -> None:
    busy = replace(IDLE, cores=2.0, cores_online=2, foreign_cores=2.0)
    assert trouble(run(3), busy, held=0.25, cores=2.0) == ""


def test_threads_are_the_verdict_when_they_gain_enough() -> None:
    trust = Trust(400, 8.0, 0.05, 100)
    host = replace(IDLE, foreign_cores=None)
    verdict, causes = decide(BASE, Inputs(), None, host, trust, threads=1.6)
    assert (verdict.bound, verdict.cause, causes["model.threads"]) == ("cpu", "model.threads", 1.6)
    assert decide(BASE, Inputs(), None, host, trust)[0].cause == "model.compute"
    assert verdict.confidence == "medium", "a range is no measurement"
    assert decide(BASE, Inputs(), None, host, trust, threads=1.4)[0].confidence == "low"
