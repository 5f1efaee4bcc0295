"""Judgements of the lab, and runs that are kept for later."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from bottleneck_doctor.model.codec import encode_profile
from tests.analyse.runs import run_of
from tests.lab.judge import Judgement, Taken, judge
from tests.lab.kept import again, placeless, put
from tests.lab.run import MARK, ROOT, left_running
from tests.lab.table import summary
from tests.patients.expected import PATIENTS, Patient

SICK = Patient(
    name="ill",
    group="ailment",
    bounds=frozenset({"cpu"}),
    causes=frozenset({"input.preprocess"}),
    remedies=frozenset({"workers-auto"}),
    twin="workers-auto",
    never=frozenset({"more-cores"}),
    truth="by construction",
)


def report(
    bound: str = "cpu", wait: float | None = 0.5, **speedups: tuple[float, float, float]
) -> dict[str, Any]:
    remedies = [
        {
            "id": name.replace("_", "-"),
            "predicted_speedup": dict(zip(("low", "likely", "high"), promise, strict=True)),
        }
        for name, promise in speedups.items()
    ]
    return {
        "verdict": {"bound": bound, "cause": "input.preprocess"},
        "metrics": {"data_wait_fraction": {"value": wait}},
        "remedies": remedies,
    }


def judged(
    told: dict[str, Any], patient: Patient = SICK, truth: float = 0.51, held: bool = True
) -> Judgement:
    return judge(patient, told, Taken({"wait_fraction": truth}, [2.0, 2.2, 9.0], [1.1, 1.0, 1.2], held))


def test_a_right_diagnosis_is_right_in_every_column() -> None:
    seen = judged(report(workers_auto=(1.5, 1.9, 2.4)))
    assert (seen.bound_right, seen.cause_right, seen.remedy_right, seen.wait_right) == (True,) * 4
    assert seen.measured == 2.0
    assert seen.inside is True
    assert seen.near is True


def test_a_healthy_patient_must_be_promised_nothing() -> None:
    healthy = replace(SICK, remedies=frozenset(), twin=None)
    assert judged(report(), healthy).remedy_right is True
    assert judged(report(workers_auto=(1.1, 1.3, 1.5)), healthy).remedy_right is False


def test_a_promise_of_what_cannot_help_is_named() -> None:
    seen = judged(report(workers_auto=(1.5, 1.9, 2.4), more_cores=(1.1, 1.2, 1.3)))
    assert seen.hurts == "more-cores"
    assert "ill: promises a gain from more-cores, which brings none" in summary([seen])


def test_remedies_that_were_tried_are_held_against_the_list() -> None:
    told = report(workers_auto=(1.5, 1.9, 2.4), more_workers=(1.1, 1.2, 1.3))
    tried = {"cheaper": [0.5, 0.5], "more-workers": [2.4, 2.3], "workers-auto": [1.0, 1.1]}
    seen = judge(SICK, told, Taken({}, [2.0, 2.2, 9.0], [1.1], tried_s=tried))
    assert [one.remedy for one in seen.tried] == ["workers-auto", "more-workers", "cheaper"]
    assert [one.harmful for one in seen.tried] == [False, True, False]
    assert seen.best_first is False  # a remedy that the list lacks brought more
    del tried["cheaper"]
    assert judge(SICK, told, Taken({}, [2.1], [1.1], tried_s=tried)).best_first is True
    assert judged(told).best_first is None


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


def test_a_process_that_outlives_its_run_is_found_by_its_environment() -> None:
    mark, other = uuid.uuid4().hex, uuid.uuid4().hex
    command = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(command, env={**os.environ, MARK: mark}, stdin=subprocess.PIPE) as left:
        assert len(left_running(mark)) == 1
        assert left_running(other) == []
        left.communicate(b"\n")
    assert left_running(mark) == []
