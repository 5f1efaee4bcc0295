"""What other programs cost a step, told by the run queue; never what the job's own threads cost it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.host import uncontended
from bottleneck_doctor.model.diagnosis import HostLoad, Inputs, Step

STEP = Step(
    t=0.0, steps=1, wall=0.030, wait=0.020, backward=0.0, optimizer=0.0, checkpoint=0.0, logging=0.0,
    collect=0.0, copy=0.0, compute=0.010, cpu=0.010, queue=0.012, process_cpu=0.010, wait_cpu=None,
    ready=None, wait_queue=0.008,
)  # fmt: skip
STEPS = [replace(STEP, t=0.03 * number) for number in range(60)]
CROWDED = HostLoad(cores=2.0, cores_online=2, job_cores=0.5, foreign_cores=1.5)
ALONE = replace(CROWDED, foreign_cores=0.0)


def left(
    host: HostLoad, workers: int = 0, inputs: Inputs | None = None, steps: list[Step] | None = None
) -> float:
    found = uncontended(STEPS if steps is None else steps, inputs or Inputs(), workers, host)
    assert found is not None
    assert found.value is not None
    return found.value


def test_a_job_that_one_core_would_do_loses_its_whole_queue_to_others() -> None:
    assert left(CROWDED) == pytest.approx(0.030 - 0.012)


def test_a_queue_of_ones_own_threads_stays_in_the_step() -> None:
    assert left(ALONE) == pytest.approx(0.030)
    own = replace(CROWDED, job_cores=1.9, foreign_cores=0.1)
    assert left(own) > 0.028


def test_strangers_on_cores_that_the_job_may_not_use_cost_it_nothing() -> None:
    assert left(replace(CROWDED, cores_online=4)) == pytest.approx(0.030)


def test_with_workers_the_wait_is_stretched_as_their_fetches_are() -> None:
    inputs = Inputs(batches=60, wall=0.040, cpu=0.03, queue=0.010)
    assert left(CROWDED, workers=2, inputs=inputs) == pytest.approx(0.030 - 0.004 - 0.020 * 0.25)


@pytest.mark.parametrize(
    ("steps", "host"),
    [
        ([], CROWDED),
        ([replace(STEP, queue=None)] * 9, CROWDED),
        (STEPS, replace(CROWDED, foreign_cores=None)),
    ],
)
def test_what_was_not_measured_is_not_said(steps: list[Step], host: HostLoad) -> None:
    assert uncontended(steps, Inputs(), 0, host) is None


def test_the_interval_is_that_of_what_is_left() -> None:
    shaken = [
        replace(s, wall=0.018 + q, queue=q) for s, q in zip(STEPS, [0.001, 0.03, 0.1] * 20, strict=True)
    ]
    found = uncontended(shaken, Inputs(), 0, CROWDED)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(0.018), pytest.approx(0.018))
    assert found.n == 60


def test_steps_that_were_all_waiting_for_strangers_have_no_value() -> None:
    found = uncontended([replace(STEP, queue=0.030)] * 9, Inputs(), 0, replace(CROWDED, job_cores=0.02))
    assert found is not None
    assert (found.value, found.low) == (None, None)
    assert "other programs" in found.source
