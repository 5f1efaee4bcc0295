"""What is kept of a patient can be judged again, and names nobody's machine."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from bottleneck_doctor.model.codec import encode_profile
from tests.analyse.runs import run_of
from tests.lab.judge import Taken
from tests.lab.kept import again, placeless, put
from tests.lab.run import ROOT
from tests.patients.expected import PATIENTS

PATIENT = next(patient for patient in PATIENTS if patient.name == "loader-in-main")
TAKEN = Taken({"wait_fraction": 0.5}, [0.02], [0.01], False, True)


def test_a_kept_run_is_judged_like_a_fresh_one(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    profile.write_bytes(encode_profile(run_of()))
    put(tmp_path / "kept", PATIENT, profile, TAKEN)
    found = again(tmp_path / "kept", PATIENT)
    assert found is not None
    assert (found.name, found.wait_truth, found.measured) == ("loader-in-main", 0.5, 2.0)
    assert again(tmp_path, PATIENT) is None, "nothing was kept there"


def test_places_and_names_are_taken_out() -> None:
    files = [f"{ROOT}/tests/a.py", f"{sys.prefix}/bin/x.py", str(ROOT)]
    told = placeless(json.dumps([*files, platform.node(), "/data/a"]))
    assert str(ROOT) not in told
    assert sys.prefix + "/" not in told
    assert json.loads(told)[2:] == ["/home/ann/bdoc", "box", "/data/a"]
