"""The run as a whole: when evaluation is its cause, and what a faster step is worth in it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.analyse.verdict import SENTENCES
from bottleneck_doctor.analyse.whole_run import in_run, judge_whole, with_evaluation, with_faster_evaluation
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.derived import Whole
from bottleneck_doctor.model.loops import Epochs
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Elapsed
from tests.analyse.runs import run_of

MS = 1e-3


def evaluated(seconds: float, recorded: int = 0, **traits: float) -> Profile:
    """Three seconds of training, and so many of evaluation in steps like its own, with workers' work done."""
    run = run_of(**{"cpu": 1 * MS, "compute": 9 * MS, "steps": 300, **traits})
    other = run_of(cpu=1 * MS, compute=9 * MS, steps=100).loops[0]
    passes = Epochs([1.0, 2.0, 3.0], [0.0] * 3, [0.0] * 3, [34, 33, 33])
    held_out = replace(other, loader="1:2", epochs=passes, role="evaluation", wall_s=seconds, backwards=0,
                       forwards=2, recorded_forwards=recorded)  # fmt: skip
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


@pytest.mark.parametrize("cause", ["host.launch", "host.python", "input.preprocess"])
def test_the_training_loops_own_cause_is_not_that_of_what_it_evaluates_itself(cause: str) -> None:
    main = diagnose(run_of(cpu=1 * MS, compute=9 * MS, steps=300))
    main = replace(main, verdict=replace(main.verdict, cause=cause), causes={cause: 1.3})
    judged = judge_whole(main, Whole(run_s=9.0, training_s=3.0, evaluation_s=5.0), None)
    assert (judged.verdict.cause, judged.verdict.bound) == ("host.evaluation", main.verdict.bound)
    assert judged.verdict.summary == SENTENCES["host.evaluation"]


def test_what_speeds_up_evaluation_as_well_counts_for_both() -> None:
    main = diagnose(run_of(cpu=1 * MS, compute=9 * MS, steps=300))
    main = replace(main, verdict=replace(main.verdict, cause="model.threads"), causes={"model.threads": 2.5})
    whole = Whole(run_s=9.0, training_s=4.5, evaluation_s=4.0)
    assert judge_whole(main, whole, None).verdict.cause == "model.threads", "×2.5 of both is more than ×1.9"
    alone = replace(main, causes={"model.compute": 2.5})
    assert judge_whole(alone, whole, None).verdict.cause == "host.evaluation", "×2.5 of one is less"


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


LIFE = Elapsed(1, first_s=3.0, last_s=9.0, exit_s=9.1, preparing_s=3.0, training_s=3.0)
SLOW = {"cpu": 20 * MS, "compute": 1 * MS, "steps": 100}


def slow_validation(seconds: float, steps: int = 300) -> Profile:
    """Quick training, and a validation loader that decodes in the loop."""
    run, other = run_of(cpu=0.1 * MS, compute=1 * MS, steps=steps), run_of(**SLOW, epochs=4)
    held_out = replace(other.loops[0], loader="1:2", role="evaluation", wall_s=seconds, backwards=0)
    fetches = replace(other.fetches[0], loader="1:2")
    place = Location("train.py", 99)
    return replace(
        run,
        run=replace(run.run, duration_s=5.0 + seconds),
        loops=[*run.loops, held_out],
        loaders=[*run.loaders, replace(run.loaders[0], key="1:2", dataset="Held out", location=place)],
        fetches=[*run.fetches, fetches],
    )


@pytest.mark.parametrize("steps", [300, 6])
def test_a_slow_validation_loader_is_the_verdict_however_short_the_training(steps: int) -> None:
    report = write_up(slow_validation(20.0, steps))
    assert (report.verdict.bound, report.verdict.cause) == ("cpu", "input.preprocess")
    assert "evaluation" in report.verdict.summary
    assert report.budget_of == "evaluation"
    shares = {part.part: part.share for part in report.budget}
    assert shares["data wait"] > 0.9
    assert "backward" not in shares
    assert report.metrics["evaluation_data_wait_fraction"].value == pytest.approx(
        shares["data wait"], rel=0.02
    )
    assert report.metrics["data_wait_fraction"].value != pytest.approx(shares["data wait"], abs=0.2)


def test_its_remedies_are_those_of_the_validation_loader() -> None:
    report = write_up(slow_validation(20.0))
    (finding,) = (one for one in report.findings if one.id == "loader-in-main")
    assert finding.location == Location("train.py", 99)
    (proposal,) = (one for one in report.remedies if one.id == "workers-auto")
    assert proposal.scope == "run"
    assert "evaluation" in proposal.title
    assert proposal.fix.location == Location("train.py", 99)
    both = 20.0 + 0.33
    assert 1.0 < proposal.predicted_speedup.likely < both / 0.33
    assert "eval-less" in {one.id for one in report.remedies}


def test_a_validation_that_takes_little_leaves_the_training_its_verdict() -> None:
    report = write_up(slow_validation(0.05, 900))
    assert report.budget_of == "training"
    assert report.verdict.cause == "model.compute"


def started(life: Elapsed, steps: int = 6, stopped_by: str | None = None, batch_s: float = 1 * MS) -> Profile:
    base = run_of(workers=8, cpu=batch_s, compute=9 * MS, steps=steps, epochs=2, start=1.0)
    return replace(base, run=replace(base.run, duration_s=10.0, stopped_by=stopped_by), elapsed=[life])


def test_workers_that_start_for_most_of_the_run_are_the_verdict_though_steps_are_too_few() -> None:
    life = replace(LIFE, training_s=0.2, starting_s=4.0, first_start_s=0.5, stopping_s=1.0, beginnings=8)
    report = write_up(started(life))
    assert (report.verdict.bound, report.verdict.cause) == ("cpu", "input.worker_startup")
    none, kept = report.remedies
    assert (none.id, kept.id, none.scope, kept.scope) == ("workers-auto", "persistent-workers", "run", "run")
    assert none.predicted_speedup.likely == pytest.approx(10 / (10 - 5), rel=0.01)
    assert kept.predicted_speedup.likely == pytest.approx(10 / (10 - 3.5 - 7 / 8), rel=0.01)


@pytest.mark.parametrize(("batch_s", "left", "spared_s"), [(1 * MS, "none", 4.0), (250 * MS, "2", 3.0)])
def test_workers_that_start_once_are_too_many(batch_s: float, left: str, spared_s: float) -> None:
    """Without any, where the loop makes its few batches faster than they start."""
    life = replace(LIFE, training_s=0.2, starting_s=4.0, first_start_s=4.0, beginnings=1)
    (remedy,) = write_up(started(life, batch_s=batch_s)).remedies
    assert remedy.id == "workers-auto"
    assert f"fewer workers: {left} instead of 8" in remedy.title
    assert remedy.predicted_speedup.likely == pytest.approx(10 / (10 - spared_s), rel=0.02)


def test_the_first_start_of_a_run_that_was_cut_short_is_no_verdict() -> None:
    life = replace(LIFE, training_s=0.2, starting_s=4.0, first_start_s=4.0, beginnings=1)
    assert diagnose(started(life, stopped_by="--max-steps")).verdict.bound == "inconclusive"


def test_checkpoints_that_take_more_than_the_steps_are_the_verdict() -> None:
    life = replace(LIFE, training_s=0.2, checkpoint_s=4.0)
    verdict = diagnose(started(life)).verdict
    assert (verdict.cause, verdict.confidence) == ("host.checkpoint", "medium")


def test_steps_that_take_more_than_starts_keep_their_verdict() -> None:
    life = replace(LIFE, training_s=3.0, starting_s=1.0, checkpoint_s=1.0, beginnings=8)
    assert diagnose(started(life, steps=300)).subject == "training"


def test_without_anything_that_took_the_time_nothing_is_concluded() -> None:
    assert diagnose(run_of(cpu=1 * MS, compute=9 * MS, steps=6)).verdict.bound == "inconclusive"
