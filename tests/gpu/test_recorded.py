"""Profiles recorded on real devices, diagnosed again: later versions may not get worse. No GPU is needed."""

from pathlib import Path

import pytest

from tests.gpu.examine import Seen, judged
from tests.gpu.expected import PATIENTS
from tests.gpu.records import FILE, load
from tests.lab.golden import GOLDEN, names
from tests.lab.kept import TAKEN, report_of, taken_of
from tests.patients.patient import Patient

RECORDED = [
    (place, one)
    for place in (path.with_suffix("") for path in sorted(GOLDEN.glob("*.zip")))
    if FILE in names(place)
    for one in PATIENTS
    if one.name + TAKEN in names(place)
]


def again(folder: Path, patient: Patient) -> Seen:
    report = report_of(folder, patient.name)
    return judged(patient, report, taken_of(folder, patient))


@pytest.mark.parametrize(("folder", "patient"), RECORDED, ids=lambda one: one.name)
def test_what_was_right_on_a_device_stays_right(folder: Path, patient: Patient) -> None:
    """The sheet beside the profile holds what was right when it was recorded."""
    then, found = load(folder).seen[patient.name].judgement, again(folder, patient).judgement
    assert found.bound_right or not then.bound_right
    assert found.cause_right or not then.cause_right
    assert found.wait_right is not False or then.wait_right is False
