"""The steps that are compared: enough of them, whole epochs, after the warm-up of every arm."""

from dataclasses import replace
from typing import Any

import pytest

from bottleneck_doctor.agent.trial.from_memory import BATCHES
from bottleneck_doctor.agent.trial.losses import MARGIN
from bottleneck_doctor.analyse.diagnose import diagnose
from bottleneck_doctor.commands.prove import LOSSES
from bottleneck_doctor.model.diagnosis import Diagnosis
from bottleneck_doctor.model.instruments import Operation
from bottleneck_doctor.model.proof import CEILING, Arm, ComparedSteps
from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.model.run import Treatment
from bottleneck_doctor.prove.measure import (
    AT_MOST,
    FED_FROM,
    LEAST,
    LEAST_S,
    NOTED,
    TREATED_S,
    WARMUP,
    span_of,
)
from tests.analyse.runs import run_of

from .simulated_runs import BASE, remedy

WORKERS = remedy("workers", Treatment("loader", {"arguments": {"num_workers": 4, "prefetch_factor": 4}}))
CEILING_ARM = Arm(CEILING, "ceiling", "the same batches from memory", (), (Treatment("replay"),))
LARGE = replace(remedy("x"), predicted=Speedup(8.0, 10.0, 12.0, "replay"))


def watched(stopped: bool = True, **traits: object) -> Diagnosis:
    """A run that was ended, or ended by itself; its epochs are too long to matter."""
    profile = run_of(**{"compute": 0.02, "steps": 400, "epochs": 2, **traits})
    run = replace(profile.run, stopped_by="steady" if stopped else None)
    return diagnose(replace(profile, run=run))


def steps(span: ComparedSteps) -> int:
    return span.end - span.begin


@pytest.mark.parametrize(
    ("traits", "arm", "begin", "count"),
    [
        ({}, remedy("x"), NOTED, LEAST_S / 0.02),  # quiet steps of 20 ms
        ({"compute": 1.0}, remedy("x"), WARMUP, LEAST),  # the first slow steps are not left out
        ({"steps": 1500}, LARGE, NOTED, 10 * TREATED_S / 0.02),  # a second of what is ten times as fast
        ({"steps": 420, "epochs": 6}, remedy("x"), NOTED, 140),  # epochs of 70 whole, 100 are wanted
        ({"compute": 0.2}, WORKERS, 2 * 4 * 4, LEAST),  # what a loader holds in advance is warm-up
        ({"compute": 0.2}, CEILING_ARM, FED_FROM, LEAST),  # all batches come from memory by then
    ],
)
def test_steps_are_compared_from_the_warm_up_on(
    traits: dict[str, Any], arm: Arm, begin: int, count: float
) -> None:
    span = span_of(watched(**{"epochs": 1, **traits}), [BASE, arm])
    assert (span.begin, steps(span)) == (begin, pytest.approx(count, rel=0.1))


def test_what_the_agent_does_first_is_over_when_the_comparison_begins() -> None:
    assert NOTED >= LOSSES + MARGIN
    assert FED_FROM > BATCHES + 1


def test_a_noisy_training_is_compared_over_more_steps_but_no_more_than_were_watched() -> None:
    quiet, noisy, wild = (watched(epochs=1, noise=noise) for noise in (0.01, 0.5, 5.0))
    assert steps(span_of(quiet, [BASE])) < steps(span_of(noisy, [BASE])) <= steps(span_of(wild, [BASE]))
    assert steps(span_of(wild, [BASE])) <= AT_MOST * wild.quality.steady_steps + 1


def test_checkpoints_are_compared_as_often_as_they_come() -> None:
    diagnosis = watched(steps=450, epochs=1)
    assert diagnosis.loop is not None
    saving = Operation("checkpoint", diagnosis.loop.pid, 0, "save", 6, 6.0, 6.0, 1.0)
    diagnosis = replace(diagnosis, profile=replace(diagnosis.profile, operations=[saving]))
    assert steps(span_of(diagnosis, [BASE])) == 150  # 75 each, 100 wanted


def test_for_a_remedy_of_the_whole_run_the_time_between_evaluations_is_compared_whole() -> None:
    diagnosis = watched(epochs=1, steps=600)
    diagnosis = replace(diagnosis, whole=replace(diagnosis.whole, evaluations=2))
    assert steps(span_of(diagnosis, [BASE, remedy("x", scope="run")])) == 300


def test_a_training_that_ends_by_itself_is_compared_to_its_end() -> None:
    span = span_of(watched(stopped=False, steps=60, epochs=1), [BASE, WORKERS])
    assert span.end <= 60
    assert span.begin <= 0.35 * 60
