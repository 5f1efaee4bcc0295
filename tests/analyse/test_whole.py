"""The run as a whole: when evaluation is its cause, and what a faster step is worth in it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.whole import in_run, with_evaluation, with_faster_evaluation
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.whole import Whole
from bottleneck_doctor.prescribe import write_up
from tests.analyse.runs import run_of

MS = 1e-3


def evaluated(seconds: float, recorded: int = 0, **traits: float) -> Profile:
    """Three seconds of training, and so many of evaluation in steps like its own, with workers' work done."""
    run = run_of(**{"cpu": 1 * MS, "compute": 9 * MS, "steps": 300, **traits})
    other = run_of(cpu=1 * MS, compute=9 * MS, steps=100).loops[0]
    held_out = replace(other, loader="1:2", role="evaluation", wall_s=seconds, backwards=0, forwards=2,
                       recorded_forwards=recorded)  # fmt: skip
    return replace(
        run,
        run=replace(run.run, duration_s=5.0 + seconds),
        loops=[*run.loops, held_out],
        loaders=[*run.loaders, replace(run.loaders[0], key="1:2", dataset="Held out")],
    )


@pytest.mark.parametrize(
    ("seconds", "traits", "cause"),
    [
        (6.0, {}, "host.evaluation"),
        (1.5, {}, "model.compute"),
        (1.5, {"compute": 0.0, "idle": 9 * MS}, "host.evaluation"),
        (0.5, {"compute": 0.0, "idle": 9 * MS}, "input.preprocess"),
        (1.5, {"cpu": 8 * MS, "compute": 0.0, "idle": 2 * MS}, "input.preprocess"),
    ],
)
def test_evaluation_is_the_cause_where_saving_it_gains_most(
    seconds: float, traits: dict[str, float], cause: str
) -> None:
    verdict = diagnose(evaluated(seconds, **traits)).verdict
    assert verdict.cause == cause
    assert verdict.bound == "cpu", "the evaluation's own bound"


def test_metrics_and_budget_stay_those_of_the_training_step() -> None:
    with_it, without = diagnose(evaluated(6.0)), diagnose(run_of(cpu=1 * MS, compute=9 * MS, steps=300))
    assert with_it.budget == without.budget
    assert with_it.metrics["data_wait_fraction"] == without.metrics["data_wait_fraction"]


def test_evaluation_remedies_speak_of_the_whole_run_and_no_step_gets_faster() -> None:
    report = write_up(evaluated(6.0, recorded=2))
    first = report.remedies[0]
    assert first.id == "eval-less"
    assert first.predicted_speedup.likely == pytest.approx(9 / (9 - 6 * 0.8), rel=0.02)
    assert first.predicted_step_s == pytest.approx(report.metrics["step_time_s"].value)
    assert "eval-no-grad" in {remedy.id for remedy in report.remedies}
    assert "eval-no-grad" not in {remedy.id for remedy in write_up(evaluated(6.0)).remedies}


def test_a_steps_gain_is_told_end_to_end_where_training_is_a_part_of_the_run() -> None:
    slow = {"cpu": 20 * MS, "compute": 0.0, "idle": 10 * MS, "steps": 300}
    (finding,) = (one for one in write_up(evaluated(9.0, **slow)).findings if one.id == "loader-in-main")
    (line,) = (one for one in finding.evidence if one.metric == "run_speedup")
    (remedy,) = (one for one in write_up(evaluated(9.0, **slow)).remedies if one.id in line.text)
    assert line.value == pytest.approx(1 / (1 - 9 / 14 * (1 - 1 / remedy.predicted_speedup.likely)), rel=0.02)
    alone = write_up(run_of(**{**slow, "steps": 2000}))
    assert not [one for finding in alone.findings for one in finding.evidence if one.metric == "run_speedup"]


def test_gains_add_up() -> None:
    whole = Whole(run_s=20.0, training_s=10.0, evaluation_s=5.0, evaluations=5)
    assert with_evaluation(whole, 2.0) == pytest.approx(15 / 10)
    assert with_faster_evaluation(whole, 5.0) == pytest.approx(15 / 11)
    assert with_faster_evaluation(whole, math.inf) == pytest.approx(1.5)
    assert in_run(whole, 2.0) == pytest.approx(20 / 15)
    assert with_evaluation(Whole(), 2.0) == in_run(Whole(), 2.0) == 2.0
