"""Tables of steps shrink without losing a nanosecond, and set aside what an instrument disturbed."""

from __future__ import annotations

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.assemble.steps import flag, read_marks, sums, thin
from bottleneck_doctor.model.loops import StepTable
from tests.assemble.logs import MS, log, row

SUMMED = (
    "steps wall_s wait_s cpu_s wait_cpu_s process_cpu_s backward_s optimizer_s checkpoint_s logging_s "
    "collect_s copy_s"
).split()


def table(rows: int) -> StepTable:
    made = StepTable()
    for place in range(rows):
        for name in SUMMED:
            getattr(made, name).append(place + 1)
        made.t.append(float(place))
        made.epoch.append(place // 10)
        made.runq_s.append(None if place % 2 else 1.0)
        made.ready.append(place)
        made.set_aside.append("")
    return made


@pytest.mark.parametrize("rows", [0, 1, 7, 64, 1000])
def test_a_thinned_table_is_short_and_its_sums_are_exact(rows: int) -> None:
    before, after = table(rows), thin(table(rows), 64)
    assert len(after.t) <= 64
    for name in SUMMED:
        assert len(getattr(after, name)) == len(after.t)
        assert sum(getattr(after, name)) == sum(getattr(before, name))
    assert after.t[-1:] == before.t[-1:], "a row ends where its last step ended"


def test_what_is_known_of_half_a_pair_is_kept() -> None:
    assert thin(table(128), 64).runq_s == [1.0] * 64


def test_sums_between_two_instants() -> None:
    found = sums([(30, 3), (10, 1), (20, 2)])
    assert [found.between(0, 100), found.between(10, 20), found.between(11, 30), found.between(40, 50)] == [
        6,
        1,
        2,
        0,
    ]


def test_steps_under_an_instrument_are_set_aside() -> None:
    made = table(4)
    made.wall_s[:] = [1.0, 1.0, 1.0, 1.0]
    flag(made, [(1.2, 1.4)], "instrument")
    assert made.set_aside == ["", "", "instrument", ""]


@pytest.mark.parametrize(("passes", "expected"), [([], 20), ([(12, 5)], 13), ([(11, 2), (14, 8)], 8)])
def test_a_closure_that_runs_the_model_is_no_part_of_the_optimizer(
    passes: list[tuple[float, float]], expected: int
) -> None:
    rows = [row(wire.OPTIMIZER, 10, 20.0), *(row(wire.BACKWARD, t, taken, 0) for t, taken in passes)]
    assert read_marks(log(rows), 0).optimizer.between(0, 10**12) == expected * MS
