"""Patients that change while they run, under bdoc: their phases, and none where nothing changes for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.measure import watched
from tests.patients.expected import PATIENTS

pytestmark = pytest.mark.slow

BY_NAME = {patient.name: patient for patient in PATIENTS}
FINDINGS = {"step-time-drift", "periodic-stalls"}
# name, bounds of its phases in order, which of the findings about change it has
TABLE = [
    ("cold-first-epoch", ["io", "cpu"], set()),
    ("mode-switch", ["cpu", "io"], set()),
    ("drifting", ["cpu"], {"step-time-drift"}),
    ("periodic-evaluation", ["cpu"], {"periodic-stalls"}),
    ("bimodal-batches", ["cpu"], set()),
    ("single-stall", ["cpu"], set()),
]


def report(name: str, folder: Path) -> dict[str, Any]:
    seen = watched(BY_NAME[name], folder, [])
    assert seen.report is not None, seen.stderr
    return seen.report


@pytest.mark.parametrize(("name", "bounds", "findings"), TABLE, ids=[row[0] for row in TABLE])
def test_a_run_has_the_phases_that_were_put_there(
    name: str, bounds: list[str], findings: set[str], tmp_path: Path
) -> None:
    said = report(name, tmp_path)
    assert [phase["verdict"]["bound"] for phase in said["phases"]] == bounds
    assert FINDINGS & {finding["id"] for finding in said["findings"]} == findings
