"""Threads and cores: what computes beside what, and what others cost."""

from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.analyse.host import uncontended
from bottleneck_doctor.analyse.replay import apply, step_seconds
from bottleneck_doctor.analyse.threads import judge_threads, making_threads, resting_share
from bottleneck_doctor.analyse.verdict import Trust, decide
from bottleneck_doctor.model.diagnosis import (
    BatchCost,
    Change,
    HostLoad,
    Inputs,
    Scenario,
    Step,
    StepCost,
    Transport,
)
from bottleneck_doctor.model.instruments import Operator, Stack
from bottleneck_doctor.model.loops import Blocked
from bottleneck_doctor.model.profile import Computing, DispatchBreakdown, Profile, ScriptSettings
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


def test_threads_on_cores_that_other_processes_use_wait_for_each_other() -> None:
    busy = replace(IDLE, foreign_cores=1.0)
    judged = judge_threads(run(4), run(4).loops[0], BASE, busy, 0.0)
    assert (judged.trouble, judged.wanted, judged.most) == ("shared", 3, judged.factor[2])
    assert 1.5 < judged.factor[0] < judged.factor[1] < judged.factor[2]
    part = judge_threads(run(4), run(4).loops[0], BASE, replace(busy, foreign_cores=0.7), 0.0)
    assert 1.1 < part.factor[0] < part.factor[1] < 2 < part.most  # 0.9 to 2.0 measured
    assert trouble(run(3), busy) == trouble(run(4), replace(busy, cores_online=8)) == ""


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


def test_threads_are_the_verdict_when_they_gain_enough() -> None:
    trust = Trust(400, 8.0, 0.05, 100)
    host = replace(IDLE, foreign_cores=None)
    verdict, causes = decide(BASE, Inputs(), None, host, trust, threads=1.6)
    assert (verdict.bound, verdict.cause, causes["model.threads"]) == ("cpu", "model.threads", 1.6)
    assert decide(BASE, Inputs(), None, host, trust)[0].cause == "model.compute"
    assert verdict.confidence == "medium", "a range is no measurement"


MS = 1e-3
MAKING_MS = 31.5


def beside(model_ms: float) -> Scenario:
    """A loop that makes its batches itself, beside a model on two threads; handing over costs little."""
    return Scenario(
        (BatchCost(MAKING_MS * MS),), (StepCost(model_ms * MS),), cores=2.0, threads=2.0,
        transport=Transport(0.7 * MS, 0.3 * MS, transfer=0.2 * MS, waking=3 * MS, delay=0.2 * MS),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("model_ms", "workers", "one_thread_ms", "measured_ms"),
    [
        (31.0, 0, None, 64.0),  # a transformer
        (31.0, 1, None, 66.0),
        (31.0, 2, None, 67.0),
        (31.0, 1, 44.0, 46.0),
        (31.0, 2, 44.0, 47.0),
        (11.5, 1, None, 46.0),  # linear layers
        (11.5, 2, None, 34.0),
        (11.5, 1, 15.0, 35.0),
        (11.5, 2, 15.0, 27.0),
    ],
)
def test_a_step_takes_what_it_took(
    model_ms: float, workers: int, one_thread_ms: float | None, measured_ms: float
) -> None:
    base = beside(model_ms)
    change = Change(workers=workers)
    if one_thread_ms is not None:
        change = replace(change, threads=1.0, compute=one_thread_ms / model_ms)
    assert step_seconds(apply(change, base)) == pytest.approx(measured_ms * MS, rel=0.2)


STEP = Step(
    t=0.0, steps=1, wall=0.030, wait=0.020, backward=0.0, optimizer=0.0, checkpoint=0.0, logging=0.0,
    collect=0.0, copy=0.0, compute=0.010, cpu=0.010, queue=0.012, process_cpu=0.010, wait_cpu=None,
    wait_queue=0.008,
)  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "threads"),
    [
        (Inputs(cpu=0.010, other_cpu=0.008), 1.8),
        (Inputs(cpu=0.010, other_cpu=0.002), 1.0),  # OpenMP's threads, waiting for more
        (Inputs(), 2.0),  # no fetch was timed: the loop's whole step
    ],
)
def test_a_batch_is_made_by_all_threads_that_have_much_of_its_cpu(inputs: Inputs, threads: float) -> None:
    step = replace(STEP, process_cpu=0.04, wait_cpu=0.010)
    assert making_threads(inputs, [step]) == pytest.approx(threads)


def test_a_worker_takes_the_cpu_of_all_threads_that_made_a_batch() -> None:
    base = Scenario((BatchCost(0.02),), (StepCost(0.001),), cores=2.0, making_threads=2.0)
    one = step_seconds(apply(Change(workers=1), base))
    assert one == pytest.approx(0.04, rel=0.1)


STEPS = [replace(STEP, t=0.03 * number) for number in range(60)]
CROWDED = HostLoad(cores=2.0, cores_online=2, job_cores=0.5, foreign_cores=1.5)


def left(workers: int = 0, inputs: Inputs | None = None) -> float:
    found = uncontended(STEPS, inputs or Inputs(), workers, CROWDED)
    assert found is not None
    assert found.value is not None
    return found.value


def test_a_job_that_one_core_would_do_loses_its_whole_queue_to_others() -> None:
    assert left() == pytest.approx(0.030 - 0.012)


def test_with_workers_the_wait_is_stretched_as_their_fetches_are() -> None:
    inputs = Inputs(batches=60, wall=0.040, cpu=0.03, queue=0.010)
    assert left(workers=2, inputs=inputs) == pytest.approx(0.030 - 0.004 - 0.020 * 0.25)
