"""The loop's CPU: Python, calls, computing, pages mapped anew, spinning."""

from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.loop_cpu import split_of
from bottleneck_doctor.analyse.memory import without_making
from bottleneck_doctor.analyse.scenario import LoopFacts, cost_of, costs_of
from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.analyse.steps import COSTS_AT_MOST
from bottleneck_doctor.model.code import FunctionSource
from bottleneck_doctor.model.diagnosis import HostLoad, Inputs
from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.model.profile import Computing, DispatchBreakdown, Profile
from bottleneck_doctor.model.run import Process
from tests.analyse.devices import device_run
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


@pytest.mark.parametrize(("busy_ms", "written_ms"), [(19.0, 1.0), (5.0, 9.0)])
def test_a_line_that_logs_a_loss_waits_in_it_for_kernels(busy_ms: float, written_ms: float) -> None:
    text = METRIC.partition("    for one")[0] + "    print(loss.item())\n"
    stacks = [
        Stack(1, "trainer", "MainThread", [f"<module> (train.py:{line})"], count)
        for line, count in {4: 75, 2: 25}.items()
    ]
    run = device_run(busy_s=busy_ms * MS, launch_s=(20 - busy_ms) * MS, host_s=5 * MS)
    run = replace(run, stacks=stacks, sources=[FunctionSource("train.py", "<module>", 1, text)])
    assert diagnose(run).device.beat.other_s == pytest.approx(written_ms * MS, rel=0.05)


def test_nothing_is_split_beside_an_accelerator() -> None:
    device = replace(
        profiled(own=3, beyond=2.8, long=6.5), processes=[Process(1, 0, "trainer", 0.0, device="cuda")]
    )
    assert parts(device)[:2] == (0, 0)


def test_stacks_bound_what_python_may_have() -> None:
    heavy = profiled(own=3, beyond=2.8, long=6.5)
    assert parts(seen(heavy, 65, 35))[0] == pytest.approx(6.5, rel=0.1)
    assert parts(seen(heavy, 0, 100))[0] <= 1.1  # the one step was unlike what the stacks saw
    assert parts(seen(heavy, 0, 5))[0] == pytest.approx(6.5, rel=0.1)  # too few to contradict


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


STEP = replace(steps_of(run_of(compute=10 * MS, noise=0.0).loops[0].table)[0], cpu=10 * MS)


@pytest.mark.parametrize(
    ("system_ms", "faults", "threads", "paging_ms"),
    [
        (4.0, 4000.0, 1.0, 4.0),
        (4.0, 4000.0, 2.0, 2.0),  # threads that compute side by side fault side by side
        (4.0, 100.0, 1.0, 0.0),  # too few pages
        (4.0, 500.0, 1.0, 0.75),  # too long for so few: the kernel did something else as well
        (0.5, 4000.0, 1.0, 0.5),
        (None, 4000.0, 1.0, 0.0),
        (4.0, None, 1.0, 0.0),
    ],
)
def test_pages_mapped_anew_take_the_kernels_part(
    system_ms: float | None, faults: float | None, threads: float, paging_ms: float
) -> None:
    step = replace(STEP, system=None if system_ms is None else system_ms * MS, faults=faults)
    cost, plain = cost_of(step, LoopFacts(threads=threads)), cost_of(STEP, LoopFacts())
    assert cost.paging == pytest.approx(paging_ms * MS)
    assert cost.compute + cost.paging == pytest.approx(plain.compute)


@pytest.mark.parametrize("rows", [30, 3 * COSTS_AT_MOST])
def test_a_stall_in_the_short_row_of_an_epochs_end_weighs_as_its_few_steps(rows: int) -> None:
    """A collection of 50 ms in each of 4 steps, among rows of 20 steps: its share is that of the whole time,
    not that of a row among rows."""
    steps = [replace(STEP, steps=20)] * rows
    steps[rows // 2] = replace(STEP, steps=4, collect=50 * MS)
    costs = costs_of(steps, LoopFacts())
    mean_s = sum(cost.collect for cost in costs) / len(costs)
    assert mean_s == pytest.approx(4 * 50 * MS / (20 * (rows - 1) + 4), rel=0.05)


STEP_PAGING = replace(
    steps_of(run_of(compute=10 * MS, noise=0.0).loops[0].table)[0],
    cpu=6 * MS, wait_cpu=2 * MS, system=4 * MS, faults=4000.0,
)  # fmt: skip


def test_what_fetches_took_is_taken_off_where_it_was_counted() -> None:
    (left,) = without_making([STEP_PAGING], Inputs(system=2 * MS, minor_faults=1000.0))
    assert (left.system, left.faults) == pytest.approx((2 * MS, 3000))
    (none,) = without_making([STEP_PAGING], Inputs(system=4 * MS, minor_faults=5000.0))
    assert (none.system, none.faults) == (0.0, 0.0)
