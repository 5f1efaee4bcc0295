"""Which of two causes of about the same size is named."""

from __future__ import annotations

import pytest

from bottleneck_doctor.analyse.verdict import Trust, decide
from bottleneck_doctor.model.diagnosis import BatchCost, CostShares, HostLoad, Inputs, Scenario, StepCost

SEEN = Trust(steps=200, seconds=10.0, model_error=0.02, blocked_samples=0)


def cause(cost: StepCost) -> str:
    base = Scenario(works=(BatchCost(1e-4),), costs=(cost,), cores=2.0)
    return decide(base, Inputs(), None, HostLoad(2.0), SEEN)[0].cause


@pytest.mark.parametrize(
    ("paging", "expected"), [(0.018, "model.compute"), (0.03, "host.memory"), (0.002, "model.compute")]
)
def test_pages_that_a_model_maps_are_the_models_own_unless_they_take_more_than_it_computes(
    paging: float, expected: str
) -> None:
    assert cause(StepCost(0.02, paging=paging)) == expected


def test_a_loop_that_sleeps_in_its_own_lines_waits_and_has_no_slow_python() -> None:
    base = Scenario(
        works=(BatchCost(1e-4),), costs=(StepCost(0.005, 0.03),), cores=2.0, shares=CostShares(resting=1.0)
    )
    verdict, _ = decide(base, Inputs(), None, HostLoad(2.0), SEEN)
    assert (verdict.bound, verdict.cause) == ("latency", "input.wait")
    assert "training loop itself sleep" in verdict.summary
