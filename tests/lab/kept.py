"""Keeps a profile with what was measured, so that a later bdoc is held against the same runs."""

import json
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bottleneck_doctor.model.diagnosis import Diagnosis
from tests.lab import golden
from tests.lab.judge import Judgement, Taken, judge
from tests.lab.run import ROOT
from tests.patients.expected import Patient

PROFILE, TAKEN = ".profile.json", ".taken.json"  # how the members of a set end


def put(folder: Path, patient: Patient, profile: Path, taken: Taken) -> None:
    """File the profile and the measurements under the patient's name."""
    members = {PROFILE: placeless(profile.read_text()), TAKEN: json.dumps(asdict(taken)) + "\n"}
    golden.write(folder, {patient.name + ending: text for ending, text in members.items()})


def placeless(text: str) -> str:
    """The profile without the names of this machine and of its folders."""
    stdlib = sysconfig.get_paths()["stdlib"]
    places = {
        str(ROOT): "/home/ann/bdoc",
        sys.prefix: "/home/ann/venv",
        stdlib: f"/usr/lib/{Path(stdlib).name}",
        sys.base_prefix: "/usr",
        tempfile.gettempdir(): "/data",
        str(Path.home()): "/home/ann",
    }
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place + "/", places[place] + "/").replace(f'"{place}"', f'"{places[place]}"')
    text = text.replace(json.dumps(platform.node()), '"box"')
    return text.replace(json.dumps(platform.release()), '"6"')


def report_of(folder: Path, name: str, without: Sequence[str] = ()) -> dict[str, Any]:
    """The report of a recorded run by today's code; ``without`` names facts of the profile to leave out."""
    return report_and_diagnosis(folder, name, without)[0]


def report_and_diagnosis(
    folder: Path, name: str, without: Sequence[str] = ()
) -> tuple[dict[str, Any], Diagnosis]:
    """The report and the diagnosis that it is written from."""
    from bottleneck_doctor.analyse.diagnose import diagnose
    from bottleneck_doctor.findings.report import FAILED, write_up
    from bottleneck_doctor.model.codec import decode_profile, encode_report

    profile = decode_profile(golden.read(folder, name + PROFILE))
    profile = replace(profile, **{name: type(getattr(profile, name))() for name in without})
    diagnosis = diagnose(profile)
    report = write_up(profile, diagnosis)
    assert not [one for one in report.abstentions if one.missing.startswith(FAILED)], name
    drawn: dict[str, Any] = json.loads(encode_report(report))
    return drawn, diagnosis


def again(folder: Path, patient: Patient, without: Sequence[str] = ()) -> Judgement | None:
    """Diagnose a kept profile anew; ``None`` where there is none of this patient."""
    if patient.name not in golden.names(folder, PROFILE):
        return None
    return judge(patient, report_of(folder, patient.name, without), taken_of(folder, patient))


def taken_of(folder: Path, patient: Patient) -> Taken:
    """What was kept of a patient beside the profile."""
    return Taken(**json.loads(golden.read(folder, patient.name + TAKEN)))
