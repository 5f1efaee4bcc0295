"""Pools crowd the cores where several workers have busy ones and wait for a core; else they are no harm."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.crowding import crowding
from bottleneck_doctor.model.diagnosis import Inputs


@pytest.mark.parametrize(
    ("workers", "pool_s", "queue_s", "serialise_s", "expected"),
    [
        (2, 0.02, 0.03, 0.0, 2.0),
        (1, 0.02, 0.03, 0.0, 1.0),  # one worker may use what is idle
        (2, 0.02, 0.001, 0.0, 1.0),  # nobody waits for a core
        (2, 0.02, 0.03, 0.018, 1.0),  # it is the pipe's feeder that is busy
        (2, 0.003, 0.03, 0.0, 1.0),
    ],
)
def test_crowding(workers: int, pool_s: float, queue_s: float, serialise_s: float, expected: float) -> None:
    inputs = Inputs(cpu=0.02, other_cpu=pool_s, queue=queue_s, wall=0.02 + queue_s)
    assert crowding(inputs, workers, serialise_s) == pytest.approx(expected)
    assert crowding(Inputs(), workers, serialise_s) == 1.0
