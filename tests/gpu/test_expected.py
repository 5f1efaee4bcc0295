"""The table of GPU patients is complete, and speaks of causes and remedies that exist."""

from __future__ import annotations

import ast

import pytest

from bottleneck_doctor.analyse.causes import RESOURCE
from bottleneck_doctor.findings.registry import offered
from tests.gpu.expected import FOLDER, PATIENTS, script
from tests.patients.patient import Patient

STAGE = set("stage clock speed traced tracer every_call ways".split())

every_patient = pytest.mark.parametrize("patient", PATIENTS, ids=lambda patient: patient.name)


def test_every_script_is_a_patient_and_every_patient_has_a_script() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - STAGE == {script(one).stem for one in PATIENTS}
    assert len({one.name for one in PATIENTS}) == len(PATIENTS)


def test_there_are_at_least_ten_ailments_with_twins_and_some_decoys() -> None:
    assert sum(one.twin is not None for one in PATIENTS) >= 10
    assert sum(one.group in ("healthy", "decoy") for one in PATIENTS) >= 2


@every_patient
def test_bounds_causes_and_remedies_exist(patient: Patient) -> None:
    assert patient.bounds <= {"cpu", "gpu", "io"}
    assert patient.causes <= RESOURCE.keys()
    assert (patient.remedies or frozenset()) | patient.never <= offered().keys()


@every_patient
def test_an_ailment_has_an_acceptable_twin_and_a_healthy_one_has_none(patient: Patient) -> None:
    assert (patient.twin is not None) == (patient.group == "ailment")
    assert patient.twin is None or patient.twin in (patient.remedies or ())
    assert "stage.cured" in script(patient).read_text() or patient.twin is None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_truth_is_independent_of_bdoc(path: str) -> None:
    """No script, and nothing that it stands on, imports the package that it is to judge."""
    tree = ast.parse((FOLDER / path).read_text())
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert not [name for name in imported if name.split(".")[0] in ("bottleneck_doctor", "tests")]
