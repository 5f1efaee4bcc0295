"""Patients that change while they run, under bdoc: their phases, and none where nothing changes for good."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.accuracy.measure import watched
from tests.patients.expected import PATIENTS

pytestmark = [pytest.mark.slow, pytest.mark.alone]

BY_NAME = {patient.name: patient for patient in PATIENTS}
FINDINGS = {"step-time-drift", "periodic-stalls"}
# name, whether its phases are I/O-bound, in order, and which of the findings about change it has
TABLE: list[tuple[str, list[bool], set[str]]] = [
    ("cold-first-epoch", [True, False], set()),
    ("mode-switch", [False, True], set()),
    ("drifting", [False], {"step-time-drift"}),
    ("periodic-evaluation", [False], set()),  # evaluation is no part of a step
    ("bimodal-batches", [False], set()),
    ("single-stall", [False], set()),
]


def report(name: str, folder: Path) -> dict[str, Any]:
    seen = watched(BY_NAME[name], folder, [])
    assert seen.report is not None, seen.stderr
    return seen.report


@pytest.mark.parametrize(("name", "reading", "findings"), TABLE, ids=[row[0] for row in TABLE])
def test_a_run_has_the_phases_that_were_put_there(
    name: str, reading: list[bool], findings: set[str], tmp_path: Path
) -> None:
    said = report(name, tmp_path)
    told = [phase["verdict"]["bound"] == "io" for phase in said["phases"]]
    assert [bound for bound, _ in groupby(told)] == reading
    assert FINDINGS & {finding["id"] for finding in said["findings"]} == findings
