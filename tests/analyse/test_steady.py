"""The steps of a loop without a loader keep their books: CPU, queue and waiting, in the gap and beside it."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.steady import outside_steps
from bottleneck_doctor.analyse.turns import Beside, turn_of
from bottleneck_doctor.model.profile import Outside

# Two steps of 10 ms: a gap of 6 with 2 on the CPU and 4 without a core; beside it 1 on the CPU and 3 without.
BUSY = Outside(
    1, 0, 2, t=[1.0], steps=[2], wall_s=[0.020], gap_s=[0.012], gap_cpu_s=[0.004], gap_runq_s=[0.008],
    cpu_s=[0.006], runq_s=[0.014],
)  # fmt: skip


def test_waiting_for_a_core_beside_the_gap_is_not_sleep() -> None:
    (step,) = outside_steps(BUSY, 1.0)
    assert (step.wait, step.wait_cpu, step.wait_queue) == pytest.approx((0.006, 0.002, 0.004))
    assert (step.queue or 0.0) - step.wait_queue == pytest.approx(0.003)
    assert turn_of(step, Beside()).idle == pytest.approx(0.0)


def test_what_is_neither_cpu_nor_queue_is_sleep() -> None:
    quiet = Outside(
        1, 0, 2, t=[1.0], steps=[2], wall_s=[0.020], gap_s=[0.012], gap_cpu_s=[0.012], gap_runq_s=[0.0],
        cpu_s=[0.014], runq_s=[0.0],
    )  # fmt: skip
    (step,) = outside_steps(quiet, 1.0)
    assert turn_of(step, Beside()).idle == pytest.approx(0.003)
