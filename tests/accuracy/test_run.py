"""The accuracy lab runs end to end, in any setting, and says how wide intervals must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.accuracy.__main__ import as_told
from tests.accuracy.reliability import Promise, fitted_width, page
from tests.accuracy.settings import SETTINGS, placed
from tests.patients.expected import PATIENTS

PATIENT = next(one for one in PATIENTS if one.twin == "workers-auto")


def report(*remedies: tuple[str, str | None]) -> dict[str, Any]:
    return {"remedies": [{"id": name, "fix": {"snippet": snippet}} for name, snippet in remedies]}


def test_the_twin_gets_the_number_of_workers_that_was_advised() -> None:
    advised = report(
        ("else", "num_workers=9"), ("workers-auto", "DataLoader(..., num_workers=6, shuffle=True)")
    )
    assert as_told(PATIENT, advised, "workers-auto") == ["--cured", "--workers", "6"]


def test_without_advice_or_with_another_cure_the_twin_is_the_tables() -> None:
    assert as_told(PATIENT, report(), "workers-auto") == ["--cured"]
    assert as_told(PATIENT, report(("workers-auto", None)), "workers-auto") == ["--cured"]
    advised = report(("workers-auto", "num_workers=6"))
    assert as_told(replace(PATIENT, twin="pack-shards"), advised, "pack-shards") == ["--cured"]
    several = replace(PATIENT, treatments=("pack-shards", "workers-auto"))
    assert as_told(several, advised, "pack-shards") == ["--cured", "pack-shards"]
    assert as_told(several, advised, "workers-auto") == ["--cured", "workers-auto", "--workers", "6"]


BY_NAME = {one.name: one for one in PATIENTS}


def test_a_setting_changes_what_is_around_a_patient_alone() -> None:
    patient = BY_NAME["loader-in-main"]
    assert placed(patient, SETTINGS["usual"]) == patient
    assert placed(patient, SETTINGS["quota"]).quota_cores == 1.5
    assert placed(patient, SETTINGS["neighbour"]).strangers == 1
    assert placed(patient, SETTINGS["quota"]).causes == patient.causes


GOOD = [Promise(f"good-{number}", "replay", 1.6, 2.0, 2.5, 2.0 + 0.02 * number) for number in range(9)]
WRONG = Promise("wrong", "replay", 1.9, 2.0, 2.1, 4.0)
BOUND = Promise("bound", "bound", 1.0, 8.0, 8.0, 3.0)


def test_the_width_holds_nine_tenths_and_no_more_than_it_must() -> None:
    assert fitted_width(GOOD) < 1
    assert fitted_width([*GOOD, WRONG]) < 1, "one in ten may lie outside"
    assert fitted_width([*GOOD, WRONG, WRONG]) > 1


def test_errors_are_told_by_basis_and_by_size() -> None:
    text = page([*GOOD, WRONG, BOUND], "a.svg", {"one core": GOOD[:3], "a quota": []})
    assert "| one core | 3 |" in text
    assert "| a quota | 0 |" in text
    assert "| all of them | 3 |" in text
    assert "| replay | 10 |" in text
    assert "| amdahl | 0 |" in text
    assert "| ×2 to ×4 | 10 |" in text
    assert "![Promised" in text
