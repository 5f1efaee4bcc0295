"""A step's own CPU: what the kernel spends on mapping pages anew is told from computing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.analyse.step_costs import COSTS_AT_MOST, Beside, cost_of, costs_of
from tests.analyse.runs import run_of

MS = 1e-3
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
