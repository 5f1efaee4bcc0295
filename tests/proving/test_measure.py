"""The twin is cured as bdoc cured the patient, for as long as that took."""

from __future__ import annotations

from tests.patients.expected import PATIENTS
from tests.proving.measure import as_long, as_told

BY_NAME = {patient.name: patient for patient in PATIENTS}
ROW = {"id": "workers-auto", "treatments": [{"name": "loader", "options": {"arguments": {"num_workers": 3}}}]}


def test_the_twin_has_as_many_workers_as_were_tried() -> None:
    assert as_told(BY_NAME["loader-in-main"], {"rows": [ROW]}) == ["--cured", "--workers", "3"]
    assert as_told(BY_NAME["loader-in-main"], {"rows": []}) == ["--cured"]
    assert as_told(BY_NAME["anomaly-mode"], {"rows": [ROW]}) == ["--cured"]


def test_runs_by_hand_are_as_long_as_the_trials_and_not_as_the_first_run() -> None:
    told = [{"steps": 500, "order": None}, {"steps": 99, "order": {}}, {"steps": 100, "order": {"seed": 0}}]
    assert as_long(told) == ["--steps", "121"]
    assert as_long([]) == []
