"""Patients that change while they run, under bdoc or recorded: their phases, and none where nothing does."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.lab.golden import GOLDEN
from tests.lab.kept import report_of
from tests.lab.patients import watched
from tests.patients.expected import PATIENTS

RECORDED = GOLDEN / "accuracy"
BY_NAME = {patient.name: patient for patient in PATIENTS}
FINDINGS = {"step-time-drift"}
# name, whether its phases are I/O-bound, in order, and which of the findings about change it has
TABLE: list[tuple[str, list[bool], set[str]]] = [
    ("cold-first-epoch", [True, False], set()),
    ("mode-switch", [False, True], set()),
    ("drifting", [False], {"step-time-drift"}),
    ("periodic-evaluation", [False], set()),  # evaluation is no part of a step
    ("bimodal-batches", [False], set()),
    ("single-stall", [False], set()),
]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("name", "reading", "findings"), TABLE[:2], ids=[row[0] for row in TABLE[:2]])
def test_a_run_has_the_phases_that_were_put_there(
    name: str, reading: list[bool], findings: set[str], tmp_path: Path
) -> None:
    seen = watched(BY_NAME[name], tmp_path, [])
    assert seen.report is not None, seen.stderr
    check(seen.report, reading, findings)


@pytest.mark.parametrize(("name", "reading", "findings"), TABLE, ids=[row[0] for row in TABLE])
def test_a_recorded_run_has_them(name: str, reading: list[bool], findings: set[str]) -> None:
    check(report_of(RECORDED, name), reading, findings)


def check(said: dict[str, Any], reading: list[bool], findings: set[str]) -> None:
    """The phases of a report, and which findings about change it has."""
    told = [phase["verdict"]["bound"] == "io" for phase in said["phases"]]
    assert [bound for bound, _ in groupby(told)] == reading
    assert FINDINGS & {finding["id"] for finding in said["findings"]} == findings
