"""What moving a batch takes: measured with workers, else by its tensors and the machine's own price."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.moving import HANDED_OUT_S, HANDED_S, SLOWER, moving_of
from bottleneck_doctor.model.diagnosis import Step
from bottleneck_doctor.model.fetches import Payload

PAIR, MANY = Payload("1:1", 9, 2.0, serialise_cpu_s=3e-4), Payload("1:1", 9, 200.0)


def test_each_tensor_costs_the_loop_and_two_threads_of_the_worker() -> None:
    few, many = (moving_of(one, [], 0, None) for one in (PAIR, MANY))
    assert many[0] - few[0] == pytest.approx(198 * 1.65e-4)
    assert many[1] - few[1] == pytest.approx(198 * (3.6e-5 + 2e-4))


def test_a_slow_machine_pays_more_up_to_a_limit() -> None:
    usual, slow, absurd = (moving_of(PAIR, [], 0, HANDED_S * times) for times in (1, 2, 99))
    assert slow == pytest.approx([2 * one for one in usual])
    assert absurd == pytest.approx([SLOWER * one for one in usual])


def test_with_workers_the_loop_and_the_pickling_thread_were_measured() -> None:
    steps = [
        Step(0.0, 1, 0.01, *[0.0] * 8, None, None, None, seconds, None) for seconds in (1e-3, 2e-3, 9e-3)
    ]
    served = 2 * HANDED_OUT_S
    assert moving_of(PAIR, steps, 2, HANDED_S * 2) == pytest.approx((2e-3, 3e-4 + served, served))
    assert moving_of(MANY, steps, 1, None) == (2e-3, 0.0, 0.0), "nothing was pickled: a thread made it"
