"""What bdoc says is held against the script's own numbers; all made up here."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.examine import judged, take
from tests.gpu.expected import PATIENTS

STARVED = next(one for one in PATIENTS if one.name == "starved-by-cpu")
TOLD = {"exposed_wait_fraction": 0.60, "step_mean_s": 0.020, "sample_mean_s": 0.00125, "run_mean_s": 0.02}
PLAIN = {**TOLD, "step_mean_s": 0.0192, "sample_mean_s": 0.0012}
CURED = {**TOLD, "step_mean_s": 0.0064, "sample_mean_s": 0.0004}
TRACED = {"kernel_s": 0.0048, "kernels": 90.0, "synchronising": {}}


def report(exposed: float | None = 0.61, **changed: Any) -> dict[str, Any]:
    promise = {"low": 2.5, "likely": 3.1, "high": 3.6, "basis": "replay"}
    fix = {"snippet": "DataLoader(..., num_workers=6)"}
    told = {
        "verdict": {"bound": "cpu", "cause": "input.preprocess"},
        "metrics": {
            "data_wait_fraction": {"value": 0.9},
            "exposed_data_wait_fraction": {"value": exposed},
            "gpu_busy_fraction": {"value": 0.24},
        },
        "remedies": [{"id": "workers-auto", "predicted_speedup": promise, "fix": fix}],
    }
    return {**told, **changed}


def taken() -> Any:
    return take(STARVED, TOLD, TRACED, [PLAIN], [CURED], same=True)


def test_the_exposed_wait_is_what_counts_not_the_loops() -> None:
    found = judged(STARVED, report(), taken()).judgement
    assert (found.wait, found.wait_truth, found.wait_right) == (0.61, 0.60, True)
    assert judged(STARVED, report(0.63), taken()).judgement.wait_right is False
    assert judged(STARVED, report(None), taken()).judgement.wait_right is False, "not measured is not right"


def test_the_speedup_is_that_of_a_sample_and_busy_that_of_the_plain_step() -> None:
    found = judged(STARVED, report(), taken())
    assert found.judgement.measured == pytest.approx(3.0)
    assert (found.judgement.inside, found.judgement.near) == (True, True)
    assert found.judgement.slowed == pytest.approx(0.00125 / 0.0012)
    assert (found.busy, found.busy_truth) == (0.24, pytest.approx(0.25))
