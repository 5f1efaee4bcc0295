"""Workers and threads share the cores: what is promised follows from what one thread was timed to take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.findings.parts.entry import patient
from bottleneck_doctor.findings.parts.reserving import ONE, reserve_cores
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, Scenario, StepCost
from bottleneck_doctor.model.instruments import Calibration

MAKING_S, MODEL_S = 0.030, 0.020


def sick(threads: float = 2.0, one_s: float | None = None, cores: float = 2.0) -> Diagnosis:
    """Batches of 30 ms made in the main process, beside a model of 20 ms on two threads."""
    work, cost = BatchCost(MAKING_S), StepCost(MODEL_S)
    base = patient(work, cost, scenario=Scenario((work,), (cost,), cores=cores, threads=threads))
    if one_s is None:
        return base
    timed = [
        Calibration("", "product", way, seconds, 0.0, 9) for way, seconds in (("now", MODEL_S), (ONE, one_s))
    ]
    return replace(base, profile=replace(base.profile, calibrations=timed))


def test_workers_and_one_thread_beat_workers_beside_two() -> None:
    (proposal,) = reserve_cores(sick())
    assert proposal.factor is not None
    low, likely, high = proposal.factor
    assert low == 1.0 < likely < high, "nobody timed one thread: the worst orders it"
    assert proposal.most == high


@pytest.mark.parametrize(("one_s", "least", "most"), [(0.020, 1.5, 1.9), (0.028, 1.4, 1.75)])
def test_what_was_timed_takes_the_place_of_the_range(one_s: float, least: float, most: float) -> None:
    (proposal,) = reserve_cores(sick(one_s=one_s))
    assert (proposal.basis, proposal.factor) == ("calibrated", None)
    assert proposal.change is not None
    assert proposal.change.compute == pytest.approx(one_s / MODEL_S)


def test_a_model_on_one_thread_has_none_to_give() -> None:
    assert reserve_cores(sick(threads=1.0)) == []


def test_where_cores_are_plenty_workers_alone_do_as_well() -> None:
    assert reserve_cores(sick(cores=16.0)) == []
