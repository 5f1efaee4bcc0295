"""A patient in another setting is the same patient."""

from __future__ import annotations

import pytest

from tests.accuracy.settings import SETTINGS, placed
from tests.patients.expected import PATIENTS

BY_NAME = {one.name: one for one in PATIENTS}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_names_patients_that_have_a_twin(name: str) -> None:
    assert all(BY_NAME[one].twin for one in SETTINGS[name].patients)


def test_a_setting_changes_what_is_around_a_patient_alone() -> None:
    patient = BY_NAME["loader-in-main"]
    assert placed(patient, SETTINGS["usual"]) == patient
    assert placed(patient, SETTINGS["quota"]).quota_cores == 1.5
    assert placed(patient, SETTINGS["neighbour"]).strangers == 1
    assert placed(patient, SETTINGS["quota"]).causes == patient.causes
