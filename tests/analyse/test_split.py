"""The loop's CPU is split into Python, calling and computing, and only where that is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.analyse.attribution import saving_calls
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.loop_cpu import is_library, split_of
from bottleneck_doctor.analyse.loop_parts import LoopSample
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.computing import Compilation, Computing, DispatchBreakdown
from bottleneck_doctor.model.diagnosis import HostLoad
from bottleneck_doctor.model.instruments import InstrumentWindow, Operation, Stack
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.runs import run_of

MS = 1e-3
STEPS = steps_of(run_of(compute=10 * MS).loops[0].table)
USER, TORCH = "metric (train.py:9)", "backward (/x/site-packages/torch/autograd/graph.py:5)"


def profiled(
    own: float = 8.0, beyond: float = 7.8, short: float = 0.5, long: float = 0.0, **more: Any
) -> Profile:
    """A loop that computes for 10 ms a step, and its profiled step in milliseconds."""
    wall = own + short + long
    facts = {"wall_s": wall * MS, "cpu_s": wall * MS, "operators": 100} | more
    facts = {"longest_pauses_s": [long * MS]} | facts
    anatomy = DispatchBreakdown(
        pid=1, own_s=own * MS, beyond_s=beyond * MS, large_s=beyond * MS, short_s=short * MS,
        long_s=long * MS, **facts,
    )  # fmt: skip
    run = run_of(cpu=0.2 * MS, compute=10 * MS)
    trainer = Process(1, 0, "trainer", 0.0, torch_threads=2)
    return replace(run, computing=Computing(anatomies=[anatomy]), processes=[trainer])


def seen(profile: Profile, user: int, torch: int) -> Profile:
    """The same with stacks of the loop's thread."""
    stacks = [
        Stack(1, "trainer", "MainThread", ["<module> (train.py:3)", frame], count)
        for frame, count in ((USER, user), (TORCH, torch))
    ]
    return replace(profile, stacks=stacks)


def parts(profile: Profile) -> tuple[float, float, float]:
    """Python, calling and computing in milliseconds."""
    scenario = diagnose(profile).scenario
    assert scenario is not None
    cost = scenario.costs[0]
    return cost.python / MS, cost.launch / MS, cost.compute / MS


def test_large_products_stay_computation() -> None:
    diagnosis = diagnose(profiled())
    assert diagnosis.verdict.cause == "model.compute"
    assert parts(profiled())[2] > 9


def test_long_pauses_are_python() -> None:
    heavy = profiled(own=3, beyond=2.8, long=6.5)
    assert diagnose(heavy).verdict.cause == "host.python"
    assert parts(heavy)[0] == pytest.approx(6.5, rel=0.1)


def test_many_small_operators_are_the_price_of_calling() -> None:
    tiny = profiled(own=8, beyond=1.5, short=5, operators=3000)
    assert diagnose(tiny).verdict.cause == "host.launch"
    assert sum(parts(tiny)) == pytest.approx(10, rel=0.1)


METRIC = """\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    for one in model(x).argmax(1):
        right += int(one.item() == 1)
"""


def test_small_operators_of_a_metric_are_not_the_models() -> None:
    tiny = profiled(own=8, beyond=1.5, short=5, operators=3000)
    lines = {5: 75, 3: 25}
    stacks = [
        Stack(1, "trainer", "MainThread", [f"<module> (train.py:{line})"], count, running=count)
        for line, count in lines.items()
    ]
    metric = replace(tiny, stacks=stacks, sources=[FunctionSource("train.py", "<module>", 1, METRIC)])
    python, launch, _ = parts(metric)
    assert python == pytest.approx(7.5, rel=0.1), "three quarters of ten milliseconds"
    assert diagnose(metric).verdict.cause == "host.python"
    assert python + launch == pytest.approx(sum(parts(tiny)[:2]), rel=0.1)


def test_without_a_profiled_step_nothing_is_split() -> None:
    assert parts(run_of(cpu=0.2 * MS, compute=10 * MS))[:2] == (0, 0)


def test_nothing_is_split_beside_an_accelerator() -> None:
    device = replace(
        profiled(own=3, beyond=2.8, long=6.5), processes=[Process(1, 0, "trainer", 0.0, device="cuda")]
    )
    assert parts(device)[:2] == (0, 0)


def test_a_step_unlike_the_others_is_not_believed() -> None:
    assert parts(profiled(own=8, long=60))[:2] == (0, 0)
    assert parts(profiled(own=4, beyond=1, short=2, operators=3000))[1] > 0
    assert parts(profiled(own=2, beyond=0.5, short=1, operators=3000))[:2] == (0, 0), "a rollout was missed"


def test_time_asleep_is_not_python() -> None:
    asleep = profiled(own=3, beyond=2.8, long=6.5, cpu_s=3.6 * MS)
    assert parts(asleep)[0] == 0


def test_a_core_lost_within_an_operator_is_neither_its_time_nor_pythons() -> None:
    lost = {"cpu_s": 10 * MS, "wall_s": 20 * MS, "longest_operators_s": [12 * MS]}
    preempted = profiled(own=13, beyond=12.8, long=6.5, **lost)
    assert parts(preempted)[0] == pytest.approx(6.5, rel=0.1)


def test_pauses_of_many_small_calls_are_not_python_when_the_core_was_lost() -> None:
    lost = {"cpu_s": 12 * MS, "wall_s": 24 * MS, "longest_operators_s": [12 * MS], "operators": 3000}
    assert parts(profiled(own=20, beyond=14, short=2, long=2, **lost))[0] == 0


def test_where_the_core_was_lost_too_often_nothing_is_split() -> None:
    assert parts(profiled(own=30, beyond=20, short=10, cpu_s=12 * MS, operators=3000))[:2] == (0, 0)


def test_what_hooks_know_is_not_python() -> None:
    saving = Operation("checkpoint", 1, 0, "save", 1, 6 * MS, 6 * MS, 6 * MS, events=[(4.0, 6 * MS)])
    heavy = replace(
        profiled(own=3, beyond=2.8, long=6.5), operations=[saving],
        windows=[InstrumentWindow("torch.profiler", 3.999, 4.01)],
    )  # fmt: skip
    assert parts(heavy)[0] < 1


def test_stacks_bound_what_python_may_have() -> None:
    heavy = profiled(own=3, beyond=2.8, long=6.5)
    assert parts(seen(heavy, 65, 35))[0] == pytest.approx(6.5, rel=0.1)
    assert parts(seen(heavy, 0, 100))[0] <= 1.1  # the one step was unlike what the stacks saw
    assert parts(seen(heavy, 0, 5))[0] == pytest.approx(6.5, rel=0.1)  # too few to contradict


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (TORCH, True),
        ("forward (/src/pytorch/torch/nn/modules/linear.py:9)", True),
        ("backward (/src/torch/_tensor.py:9)", True),
        ("call (/tmp/torchinductor_me/ab/cab.py:7)", True),
        ("metric (/home/me/torch/train.py:7)", False),
        (USER, False),
    ],
)
def test_torchs_own_frames_are_told_from_a_folder_called_torch(frame: str, expected: bool) -> None:
    assert is_library(frame) is expected


def test_compiled_code_is_python_only_where_stacks_say_so() -> None:
    heavy = profiled(own=3, beyond=2.8, long=6.5)
    compiled = replace(heavy.computing, compilations=[Compilation(1, [1.0], [2], [0], [1.0])])
    heavy = replace(heavy, computing=compiled)
    assert parts(heavy)[0] == 0
    assert parts(seen(heavy, 0, 100))[0] == 0
    assert parts(seen(heavy, 70, 30))[0] == pytest.approx(6.5, rel=0.1)


@pytest.mark.parametrize(
    ("holding", "running", "python"),
    [
        (60, 100, 0.6),  # the interpreter's lock was held in the user's own code
        (5, 100, 0.0),  # too little to be more than noise
        (10, 15, 0.0),  # too few samples to say
    ],
)
def test_without_a_profiled_step_holding_the_lock_is_python(
    holding: int, running: int, python: float
) -> None:
    run = run_of(cpu=0.2 * MS, compute=10 * MS)
    own = Stack(1, "trainer", "MainThread", [USER], running, running, holding)
    found = split_of(replace(run, stacks=[own]), run.loops[0], STEPS, HostLoad(cores=2.0))
    assert (found.python, found.launch) == (python, 0.0)


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("def metric(x):\n    return np.sort(x ** 2)\n", 0.9),
        ("def metric(x):\n    return np.sort(torch.exp(x))\n", 0.0),  # which of both, nobody saw
        ("def metric(x):\n    return x.sort()\n", 0.0),
    ],
)
def test_numpy_lets_the_lock_go_and_is_no_operator_of_the_model(text: str, python: float) -> None:
    run = run_of(cpu=0.2 * MS, compute=10 * MS)
    stacks = [Stack(1, "trainer", "MainThread", [USER], 90, 90, 0)]
    stacks += [Stack(1, "trainer", "MainThread", [USER, TORCH], 10, 10, 0)]
    run = replace(run, stacks=stacks, sources=[FunctionSource("train.py", "metric", 8, text)])
    assert split_of(run, run.loops[0], STEPS, HostLoad(cores=2.0)).python == pytest.approx(python)


def test_holding_the_lock_within_torch_is_not_python() -> None:
    run = run_of(cpu=0.2 * MS, compute=10 * MS)
    torch = Stack(1, "trainer", "MainThread", [USER, TORCH], 100, 100, 80)
    assert split_of(replace(run, stacks=[torch]), run.loops[0], STEPS, HostLoad(cores=2.0)).python == 0.0


def test_stacks_without_the_lock_say_nothing_of_it() -> None:
    run = run_of(cpu=0.2 * MS, compute=10 * MS)
    own = Stack(1, "trainer", "MainThread", [USER], 100, 100)
    assert split_of(replace(run, stacks=[own]), run.loops[0], STEPS, HostLoad(cores=2.0)).python == 0.0


def test_all_of_a_function_that_saves_is_a_checkpoint() -> None:
    """Torch's own saving is a third of it; the rest copies weights and renames the file."""
    save = Location("train.py", 70, "save_checkpoint")
    step = Location("train.py", 80, "learn")

    def sample(part: str, line: int, called: Location, count: int) -> LoopSample:
        return LoopSample(part, line, called, Stack(1, "trainer", "MainThread", [], count))

    samples = [
        sample("checkpoint", 12, save, 10),
        sample("user", 12, save, 20),
        sample("user", 13, step, 60),
        sample("checkpoint", 14, step, 3),
    ]
    assert saving_calls(samples) == {(12, "save_checkpoint")}
    assert saving_calls([sample("user", 13, step, 60)]) == set()
    lost = [sample("checkpoint", 0, save, 40), sample("user", 0, save, 40)]
    assert saving_calls(lost) == set(), "the loop was not found: it may be in that function itself"
