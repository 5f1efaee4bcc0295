"""Workers and threads share the cores: fewer of both are offered where the replay likes that best."""

from __future__ import annotations

from bottleneck_doctor.findings.parts.loader_remedies import reserve_cores
from bottleneck_doctor.model.diagnosis import BatchCost, Diagnosis, Scenario, StepCost
from tests.findings.builders import steady_run

MAKING_S, MODEL_S = 0.030, 0.020


def sick(threads: float = 2.0, cores: float = 2.0) -> Diagnosis:
    """Batches of 30 ms made in the main process, beside a model of 20 ms on two threads."""
    work, cost = BatchCost(MAKING_S), StepCost(MODEL_S)
    return steady_run(work, cost, scenario=Scenario((work,), (cost,), cores=cores, threads=threads))


def test_workers_and_one_thread_beat_workers_beside_two() -> None:
    (proposal,) = reserve_cores(sick())
    assert proposal.factor is not None
    low, likely, high = proposal.factor
    assert low == 1.0 < likely < high, "one thread was not measured: the worst case orders it"
    assert proposal.most == high


def test_a_model_on_one_thread_has_none_to_give() -> None:
    assert reserve_cores(sick(threads=1.0)) == []


def test_where_cores_are_plenty_workers_alone_do_as_well() -> None:
    assert reserve_cores(sick(cores=16.0)) == []
