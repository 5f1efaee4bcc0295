"""The verdict, as a table that can be read aloud."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.diagnose import diagnose
from tests.analyse.runs import run_of

MS = 1e-3
TABLE = [
    # what the run is like, bound, cause
    ("decoding in the loop's own process", {"cpu": 10 * MS, "idle": 5 * MS}, "cpu", "input.preprocess"),
    (
        "decoding in two workers on two cores",
        {"workers": 2, "cpu": 20 * MS, "idle": 2 * MS},
        "cpu",
        "input.preprocess",
    ),
    ("padding in Python lists", {"cpu": 1 * MS, "collate": 9 * MS, "idle": 5 * MS}, "cpu", "input.collate"),
    ("cold reads, nothing else", {"workers": 2, "storage": 20 * MS, "idle": 3 * MS}, "io", "input.storage"),
    (
        "cold reads and a light decode",
        {"storage": 16 * MS, "cpu": 4 * MS, "idle": 4 * MS},
        "io",
        "input.storage",
    ),
    ("an object store", {"workers": 1, "network": 20 * MS, "idle": 3 * MS}, "io", "input.network"),
    (
        "an object store and a decode, together longer than the model",
        {"network": 6 * MS, "cpu": 4 * MS, "compute": 9 * MS},
        "io",
        "input.network",
    ),
    ("a loader that sleeps", {"workers": 1, "sleep": 20 * MS, "idle": 3 * MS}, "latency", "input.wait"),
    (
        "a heavy model, a light loader",
        {"workers": 1, "cpu": 1 * MS, "compute": 20 * MS},
        "cpu",
        "model.compute",
    ),
    (
        "an accelerator that is never starved",
        {"workers": 2, "cpu": 2 * MS, "idle": 20 * MS},
        "balanced",
        "none",
    ),
    (
        "a checkpoint at every step",
        {"compute": 1 * MS, "idle": 2 * MS, "checkpoint": 20 * MS},
        "io",
        "host.checkpoint",
    ),
    (
        "a forced flush at every step",
        {"compute": 1 * MS, "idle": 2 * MS, "logging": 8 * MS},
        "io",
        "host.logging",
    ),
    (
        "workers born anew for every ten steps",
        {"workers": 2, "cpu": 1 * MS, "idle": 3 * MS, "start": 0.2, "epochs": 30},
        "cpu",
        "input.worker_startup",
    ),
]


@pytest.mark.parametrize(("patient", "traits", "bound", "cause"), TABLE, ids=[row[0] for row in TABLE])
def test_the_verdict_names_what_was_put_there(patient, traits, bound, cause):
    verdict = diagnose(run_of(**traits)).verdict
    assert (verdict.bound, verdict.cause) == (bound, cause), verdict


@pytest.mark.parametrize("steps", [0, 1, 3, 7])
def test_a_few_steps_are_never_a_diagnosis(steps):
    diagnosis = diagnose(run_of(cpu=0.5, idle=0.1, steps=max(steps, 1), epochs=1))
    assert diagnosis.verdict.bound == "inconclusive"
    assert all(value is None for value in diagnosis.verdict.gain.values())


def test_a_third_of_a_second_is_never_a_diagnosis():
    assert diagnose(run_of(cpu=1 * MS, idle=1 * MS, steps=150)).verdict.bound == "inconclusive"


def test_the_budget_sums_to_one_and_its_parts_to_the_step():
    diagnosis = diagnose(run_of(cpu=8 * MS, compute=4 * MS, idle=2 * MS, checkpoint=1 * MS, logging=1 * MS))
    assert sum(part.share for part in diagnosis.budget) == pytest.approx(1)
    assert sum(part.s_per_step for part in diagnosis.budget) == pytest.approx(diagnosis.step_s)


def test_a_cold_first_stretch_is_a_phase_of_its_own_and_does_not_count():
    warm, cold = (
        run_of(cpu=4 * MS, idle=4 * MS, steps=400),
        run_of(storage=20 * MS, cpu=4 * MS, idle=4 * MS, steps=100),
    )
    table, early = warm.loops[0].table, cold.loops[0].table
    for name, column in vars(early).items():
        getattr(table, name)[:0] = column
    diagnosis = diagnose(warm)
    assert [phase.label for phase in diagnosis.phases] == ["first stretch (cold)", "steady"]
    assert diagnosis.step_s == pytest.approx(8 * MS, rel=0.02)
    assert diagnosis.phases[0].to_step == pytest.approx(100, abs=12)


def test_warm_up_lasts_until_the_loops_own_work_has_settled_and_a_late_batch_is_none():
    own, batch = run_of(cpu=4 * MS, compute=4 * MS), run_of(cpu=4 * MS, compute=4 * MS)
    own.loops[0].table.wall_s[2] += 1.0
    batch.loops[0].table.wall_s[2] += 1.0
    batch.loops[0].table.wait_s[2] += 1.0
    assert diagnose(own).quality.warmup_steps == sum(own.loops[0].table.steps[:3])
    assert diagnose(batch).quality.warmup_steps == 0


def test_strangers_take_cores_from_the_prediction():
    alone, crowded = (
        run_of(workers=1, cpu=20 * MS, idle=MS),
        run_of(workers=1, cpu=20 * MS, idle=MS, foreign=1.2),
    )
    assert diagnose(alone).scenario.strangers == pytest.approx(0, abs=0.1)
    assert diagnose(crowded).scenario.strangers == pytest.approx(1.1, abs=0.15)


def test_the_same_profile_gives_the_same_diagnosis():
    assert diagnose(run_of(cpu=5 * MS, idle=5 * MS)) == diagnose(run_of(cpu=5 * MS, idle=5 * MS))


@pytest.mark.parametrize(
    ("compute", "confidence", "said"),
    [(10 * MS, "low", True), (9 * MS, "low", False), (7 * MS, "medium", False), (4 * MS, "high", False)],
)
def test_two_sides_that_are_about_as_large_are_no_sure_verdict(compute, confidence, said):
    verdict = diagnose(run_of(cpu=10 * MS, compute=compute)).verdict
    assert verdict.confidence == confidence
    assert ("takes about as much" in verdict.summary) == said


@pytest.mark.parametrize(("saved_ms", "cause"), [(8, "host.checkpoint"), (5, "model.compute")])
def test_of_near_ties_writing_is_the_cause_since_the_model_is_quicker_without_it(saved_ms, cause):
    found = diagnose(run_of(compute=10 * MS, checkpoint=saved_ms * MS)).verdict
    assert found.cause == cause


def test_of_a_loader_that_was_not_seen_nothing_is_said_but_the_wait() -> None:
    run = run_of(workers=1, cpu=30 * MS, compute=2 * MS)
    unseen = replace(
        run,
        loaders=[],
        fetches=[],
        blocked=[],
        loops=[replace(run.loops[0], loader=f"{run.loops[0].pid}:?1")],
    )
    verdict = diagnose(unseen).verdict
    assert (verdict.bound, verdict.cause, verdict.confidence) == ("inconclusive", "none", "low")
    assert "of the step waits for batches, and what makes them was not seen" in verdict.summary
