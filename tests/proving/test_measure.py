"""The twin is cured as bdoc cured the patient, and what a proof leaves behind is found."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

from tests.patients.expected import PATIENTS
from tests.proving.measure import MARK, _processes, as_long, as_told

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


def test_a_process_that_outlives_its_proof_is_found_by_its_environment() -> None:
    mark, other = uuid.uuid4().hex, uuid.uuid4().hex
    command = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(command, env={**os.environ, MARK: mark}, stdin=subprocess.PIPE) as left:
        assert len(_processes(mark)) == 1
        assert _processes(other) == []
        left.communicate(b"\n")
    assert _processes(mark) == []
