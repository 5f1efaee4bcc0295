"""A step's own CPU: what the kernel spends on mapping pages anew is told from computing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.steady import steps_of
from bottleneck_doctor.analyse.turns import TURNS_AT_MOST, Beside, turn_of, turns_of
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
    turn, plain = turn_of(step, Beside(threads=threads)), turn_of(STEP, Beside())
    assert turn.paging == pytest.approx(paging_ms * MS)
    assert turn.compute + turn.paging == pytest.approx(plain.compute)


def test_of_a_long_run_pages_are_those_of_all_its_steps() -> None:
    rows = [replace(STEP, system=4 * MS, faults=4000.0), replace(STEP, system=0.0, faults=0.0)]
    turns = turns_of(rows * TURNS_AT_MOST, Beside())
    assert sum(turn.paging for turn in turns) / len(turns) == pytest.approx(2 * MS)


def test_writing_that_sleeps_takes_no_cpu_from_the_computation() -> None:
    """7 ms of the step are written out, and the loop sleeps meanwhile."""
    step = replace(STEP, logging=7 * MS, wall=STEP.wall + 7 * MS)
    asleep, awake = (turn_of(step, Beside(stored=stored)) for stored in (1.0, 0.0))
    assert asleep.compute == pytest.approx(turn_of(STEP, Beside()).compute)
    assert awake.compute < asleep.compute
