"""Pools crowd the cores where several workers have busy ones and wait for a core; else they are no harm."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.causes import uncrowded
from bottleneck_doctor.analyse.host import busy_workers, crowding
from bottleneck_doctor.model.diagnosis import BatchCost, Inputs, Scenario, StepCost


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


def beside(batch_s: float, strangers: float = 0.0) -> Scenario:
    """A step of 10 ms with two threads on two cores, and a worker that computes so long on a batch."""
    return Scenario(
        (BatchCost(batch_s),), (StepCost(0.01),), workers=1, cores=2.0, threads=2.0, strangers=strangers
    )


def test_workers_are_in_the_way_as_long_as_they_compute() -> None:
    """The loop has no core for three tenths of the step."""
    assert uncrowded(beside(0.008), held=0.3) == pytest.approx(1 / (1 - 0.3))
    assert 1.0 < uncrowded(beside(0.008, strangers=0.8), held=0.3) < 1 / (1 - 0.2)
    idle = beside(0.0002)
    assert busy_workers(idle) < 0.03
    assert uncrowded(idle, held=0.3) == pytest.approx(1 / (1 - busy_workers(idle)))
