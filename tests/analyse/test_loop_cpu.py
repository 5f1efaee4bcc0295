"""The loop's CPU: Python, calls, computing, pages mapped anew, spinning."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.analyse.attribution import saving_calls
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.loop_cpu import is_library, split_of
from bottleneck_doctor.analyse.loop_parts import LoopSample
from bottleneck_doctor.analyse.memory import fetched_paging_s, made_paging_s, paging_s, without_making
from bottleneck_doctor.analyse.replay import apply, step_seconds
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.analyse.step_costs import COSTS_AT_MOST, Beside, cost_of, costs_of
from bottleneck_doctor.analyse.threads import spinning_share
from bottleneck_doctor.model.code import FunctionSource, Location
from bottleneck_doctor.model.computing import Compilation, Computing, DispatchBreakdown
from bottleneck_doctor.model.diagnosis import (
    BatchCost,
    Change,
    CostShares,
    HostLoad,
    Inputs,
    Scenario,
    Step,
    StepCost,
)
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


STEP = replace(steps_of(run_of(compute=10 * MS, noise=0.0).loops[0].table)[0], cpu=10 * MS)


@pytest.mark.parametrize(
    ("system_ms", "faults", "threads", "paging_ms"),
    [
        (4.0, 4000.0, 1.0, 4.0),
        (4.0, 4000.0, 2.0, 2.0),  # threads that compute side by side fault side by side
        (4.0, 100.0, 1.0, 0.0),  # too few pages
        (4.0, 500.0, 1.0, 0.5),  # too long for so few: the kernel did something else as well
        (0.5, 4000.0, 1.0, 0.5),
        (None, 4000.0, 1.0, 0.0),
        (4.0, None, 1.0, 0.0),
    ],
)
def test_pages_mapped_anew_take_the_kernels_part(
    system_ms: float | None, faults: float | None, threads: float, paging_ms: float
) -> None:
    step = replace(STEP, system=None if system_ms is None else system_ms * MS, faults=faults)
    cost, plain = cost_of(step, Beside(threads=threads)), cost_of(STEP, Beside())
    assert cost.paging == pytest.approx(paging_ms * MS)
    assert cost.compute + cost.paging == pytest.approx(plain.compute)


def test_of_a_long_run_pages_are_those_of_all_its_steps() -> None:
    rows = [replace(STEP, system=4 * MS, faults=4000.0), replace(STEP, system=0.0, faults=0.0)]
    costs = costs_of(rows * COSTS_AT_MOST, Beside())
    assert sum(cost.paging for cost in costs) / len(costs) == pytest.approx(2 * MS)


@pytest.mark.parametrize("rows", [30, 3 * COSTS_AT_MOST])
def test_a_stall_in_the_short_row_of_an_epochs_end_weighs_as_its_few_steps(rows: int) -> None:
    """A collection of 50 ms in each of 4 steps, among rows of 20 steps: its share is that of the whole time,
    not that of a row among rows."""
    steps = [replace(STEP, steps=20)] * rows
    steps[rows // 2] = replace(STEP, steps=4, collect=50 * MS)
    costs = costs_of(steps, Beside())
    mean_s = sum(cost.collect for cost in costs) / len(costs)
    assert mean_s == pytest.approx(4 * 50 * MS / (20 * (rows - 1) + 4), rel=0.05)


def test_writing_that_sleeps_takes_no_cpu_from_the_computation() -> None:
    """7 ms of the step are written out, and the loop sleeps meanwhile."""
    step = replace(STEP, logging=7 * MS, wall=STEP.wall + 7 * MS)
    asleep, awake = (cost_of(step, Beside(stored=stored)) for stored in (1.0, 0.0))
    assert asleep.compute == pytest.approx(cost_of(STEP, Beside()).compute)
    assert awake.compute < asleep.compute


STEP_PAGING = replace(
    steps_of(run_of(compute=10 * MS, noise=0.0).loops[0].table)[0],
    cpu=6 * MS, wait_cpu=2 * MS, system=4 * MS, faults=4000.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("system_ms", "faults", "paging_ms"),
    [(4.0, 4000.0, 4.0), (40.0, 4000.0, 4.0), (4.0, 100.0, 0.0), (None, 4000.0, 0.0), (4.0, None, 0.0)],
)
def test_no_more_than_so_many_faults_can_take(
    system_ms: float | None, faults: float | None, paging_ms: float
) -> None:
    assert paging_s(None if system_ms is None else system_ms * MS, faults) == pytest.approx(paging_ms * MS)


def test_where_a_page_was_timed_no_more_than_a_quarter_above_that() -> None:
    assert paging_s(4 * MS, 4000.0, 2e-6) == pytest.approx(4 * MS)
    assert paging_s(40 * MS, 4000.0, 2e-6) == pytest.approx(10 * MS), "sockets are the kernel's work, too"


def test_of_a_batch_reads_and_shared_memory_are_not_the_allocators() -> None:
    made = Inputs(system=5 * MS, minor_faults=4000.0)
    assert fetched_paging_s(made) == pytest.approx(5 * MS)
    assert fetched_paging_s(replace(made, read_bytes=5e6)) == pytest.approx(4 * MS)
    assert fetched_paging_s(made, shared_bytes=4096 * 3900) == 0.0
    assert fetched_paging_s(replace(made, minor_faults=None)) == 0.0


def test_a_loop_that_makes_its_batches_shares_the_kernels_part_by_cpu() -> None:
    assert made_paging_s([STEP_PAGING]) == pytest.approx(1 * MS)  # 2 of its 8 ms of CPU make the batch
    (left,) = without_making([STEP_PAGING], Inputs())
    assert (left.system, left.faults) == (pytest.approx(3 * MS), pytest.approx(3000))


def test_what_fetches_took_is_taken_off_where_it_was_counted() -> None:
    (left,) = without_making([STEP_PAGING], Inputs(system=2 * MS, minor_faults=1000.0))
    assert (left.system, left.faults) == (pytest.approx(1.8 * MS), pytest.approx(2900))
    (none,) = without_making([STEP_PAGING], Inputs(system=4 * MS, minor_faults=5000.0))
    assert (none.system, none.faults) == (0.0, 0.0)


BASE = Scenario((BatchCost(30 * MS),), (StepCost(12 * MS),), workers=2, cores=2.0, threads=2.0)


def run(threads: int | None) -> Profile:
    return replace(run_of(compute=0.02), processes=[Process(1, 0, "trainer", 0.0, torch_threads=threads)])


def crowded(seed: int, *, more: bool = False) -> list[Step]:
    """Steps of 6 ms that spin now in one pass, now in the other; or that have ``more`` to do in both."""
    chance = random.Random(seed)
    steps = []
    for place in range(40):
        spun = chance.uniform(0, 20 * MS) if more or chance.random() < 0.5 else 0.0
        early = 0.5 if more else chance.choice([0.0, 1.0])
        forward, backward = 4 * MS + early * spun, 2 * MS + (1 - early) * spun
        steps.append(
            Step(place * 0.03, 1, 0.03, 2 * MS, backward, 0.0, 0.0, 0.0, 0.0, 0.0, forward,
                 cpu=forward + backward, queue=8 * MS, process_cpu=0.02, wait_cpu=0.0, ready=None)
        )  # fmt: skip
    return steps


@pytest.mark.parametrize("seed", range(5))
def test_what_is_beyond_the_quickest_steps_is_spun_away(seed: int) -> None:
    steps = crowded(seed)
    profile = run(2)
    share = spinning_share(profile, profile.loops[0], steps, BASE, 2)
    mean = sum(step.cpu or 0.0 for step in steps) / len(steps)
    assert (1 - share) * mean == pytest.approx(6 * MS, rel=0.1)


@pytest.mark.parametrize(
    ("threads", "makers", "steps"),
    [
        (2, 2, crowded(1, more=True)),
        (2, 2, [replace(step, queue=0.0) for step in crowded(1)]),
        (2, 2, [replace(step, steps=7) for step in crowded(1)]),
        (2, 2, [replace(step, exchange=MS) for step in crowded(1)]),
        (2, 0, crowded(1)),
        (1, 2, crowded(1)),
        (4, 2, crowded(1)),
        (None, 2, crowded(1)),
    ],
    ids=["more to do", "nobody waits", "rows of many steps", "ranks", "nobody makes batches", "one thread",
         "in its own way", "nobody asked"],
)  # fmt: skip
def test_nothing_is_claimed_where_it_may_be_something_else(
    threads: int | None, makers: int, steps: list[Step]
) -> None:
    profile = run(threads)
    assert spinning_share(profile, profile.loops[0], steps, BASE, makers) == 0.0


def test_spinning_ends_with_those_who_make_batches() -> None:
    scene = replace(BASE, shares=CostShares(spinning=0.5))
    assert apply(Change(), scene) == scene
    assert apply(Change(cpu=0.0), scene).costs[0].compute == pytest.approx(6 * MS)
    assert apply(Change(cpu=0.5), scene).costs[0].compute == pytest.approx(9 * MS)
    assert apply(Change(cores=8.0), scene).costs[0].compute == pytest.approx(6 * MS)
    assert apply(Change(compute=0.0), scene).costs[0].compute == 0.0
    assert step_seconds(apply(Change(cpu=0.0), scene)) < step_seconds(apply(Change(cpu=0.0), BASE))
