"""Recorded runs of every patient, diagnosed again: what `docs/accuracy.md` publishes may not get worse.

No training is started: profiles, the scripts' own clocks and the twins' times were kept by `make accuracy`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median

import pytest

from tests.lab.judge import Judgement
from tests.lab.kept import again
from tests.patients.expected import PATIENTS, Patient

RECORDED = Path(__file__).parents[1] / "golden" / "accuracy"
# What the published page reached, with room for a rounding. The aim for speedups is 0.10 and 0.25: these
# numbers may only become stricter.
CAUSES_RIGHT, REMEDIES_RIGHT, INSIDE, BOUNDED = 0.97, 0.94, 0.80, 0.75
WAIT_MEDIAN, WAITS_RIGHT, SPEEDUP_MEDIAN, SPEEDUP_P90 = 0.005, 0.97, 0.11, 0.60


@cache
def judgement(patient: Patient) -> Judgement:
    found = again(RECORDED, patient)
    assert found is not None, f"{patient.name} was never recorded: run `make accuracy`"
    return found


def every() -> list[Judgement]:
    return [judgement(patient) for patient in PATIENTS if (RECORDED / f"{patient.name}.taken.json").exists()]


def share(right: Callable[[Judgement], bool | None]) -> float:
    judged = [verdict for verdict in map(right, every()) if verdict is not None]
    return sum(judged) / len(judged)


def test_most_patients_are_recorded() -> None:
    """Those that need what not every machine allows (limits on disks and memory) may be missing."""
    assert len(every()) >= 0.9 * len(PATIENTS)


def test_every_bound_is_right() -> None:
    assert [one.name for one in every() if not one.bound_right] == []


def test_causes_and_first_remedies_are_right() -> None:
    assert share(lambda one: one.cause_right) >= CAUSES_RIGHT
    assert share(lambda one: one.remedy_right) >= REMEDIES_RIGHT


@pytest.mark.parametrize(
    "patient", [one for one in PATIENTS if one.remedies == frozenset()], ids=lambda p: p.name
)
def test_a_healthy_run_is_promised_nothing(patient: Patient) -> None:
    assert judgement(patient).remedy == "", "a remedy is promised to a healthy run"


def test_the_data_wait_is_what_the_script_measured() -> None:
    errors = [error for one in every() if (error := one.wait_error) is not None]
    assert median(errors) <= WAIT_MEDIAN
    assert share(lambda one: one.wait_right) >= WAITS_RIGHT


def test_speedups_come_as_promised() -> None:
    errors = sorted(error for one in every() if (error := one.speedup_error) is not None)
    assert median(errors) <= SPEEDUP_MEDIAN
    assert errors[int(0.9 * len(errors))] <= SPEEDUP_P90
    assert share(lambda one: one.inside) >= INSIDE
    assert share(lambda one: one.bounded) >= BOUNDED
