"""Profiles recorded on real devices, diagnosed again: later versions may not get worse. No GPU is needed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bottleneck_doctor.model.codec import decode_profile, encode_profile, encode_report
from bottleneck_doctor.prescribe import write_up
from tests.accuracy.kept import Taken, put
from tests.analyse.runs import run_of
from tests.gpu.examine import Seen, judged
from tests.gpu.expected import PATIENTS
from tests.gpu.measure import ROOT
from tests.gpu.test_examine import STARVED, taken
from tests.patients.patient import Patient

GOLDEN = ROOT / "tests" / "golden"
RECORDED = [
    (folder, one)
    for folder in sorted({path.parent for path in GOLDEN.glob("*/table.md")})
    for one in PATIENTS
    if (folder / f"{one.name}.taken.json").exists()
]


def again(folder: Path, patient: Patient) -> Seen:
    profile = decode_profile(gzip.decompress((folder / f"{patient.name}.profile.json.gz").read_bytes()))
    known = Taken(**json.loads((folder / f"{patient.name}.taken.json").read_text()))
    return judged(patient, json.loads(encode_report(write_up(profile))), known)


@pytest.mark.parametrize(("folder", "patient"), RECORDED, ids=lambda one: one.name)
def test_what_was_right_on_a_device_stays_right(folder: Path, patient: Patient) -> None:
    """The table beside the profile holds what was right when it was recorded."""
    rows = (folder / "table.md").read_text(encoding="utf-8").splitlines()
    bound, cause = next(row for row in rows if row.startswith(f"| {patient.name} |")).split("|")[2:4]
    found = again(folder, patient).judgement
    assert found.bound_right or "✗" in bound
    assert found.cause_right or "✗" in cause


def test_what_is_kept_is_judged_as_it_was(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_bytes(encode_profile(run_of()))
    put(tmp_path / "device", STARVED, profile, taken())
    found = again(tmp_path / "device", STARVED)
    assert (found.judgement.wait_truth, found.judgement.measured, found.busy_truth) == (
        0.6,
        pytest.approx(3.0),
        pytest.approx(0.25),
    )
