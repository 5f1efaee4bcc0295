"""Keeps a profile with what was measured, so that a later bdoc is held against the same runs."""

from __future__ import annotations

import gzip
import json
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.lab.judge import Judgement, Taken, judge
from tests.lab.run import ROOT
from tests.patients.expected import Patient


def put(folder: Path, patient: Patient, profile: Path, taken: Taken) -> None:
    """File the profile and the measurements under the patient's name."""
    put_profile(folder, patient.name, placeless(profile.read_text()))
    (folder / f"{patient.name}.taken.json").write_text(json.dumps(asdict(taken)) + "\n")


def put_profile(folder: Path, name: str, text: str) -> None:
    """File a profile under a name; the same text makes the same file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.profile.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


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


def report_of(file: Path, without: Sequence[str] = ()) -> dict[str, Any]:
    """The report of a kept profile, drawn anew; ``without`` names facts of it that are left out, to see
    what they are worth."""
    from bottleneck_doctor.model.codec import decode_profile, encode_report
    from bottleneck_doctor.prescribe.write_up import FAILED, write_up

    profile = decode_profile(gzip.decompress(file.read_bytes()))
    profile = replace(profile, **{name: type(getattr(profile, name))() for name in without})
    report = write_up(profile)
    assert not [one for one in report.abstentions if one.missing.startswith(FAILED)], file
    drawn: dict[str, Any] = json.loads(encode_report(report))
    return drawn


def again(folder: Path, patient: Patient, without: Sequence[str] = ()) -> Judgement | None:
    """Diagnose a kept profile anew; ``None`` where there is none of this patient."""
    file = folder / f"{patient.name}.profile.json.gz"
    if not file.exists():
        return None
    return judge(patient, report_of(file, without), taken_of(folder, patient))


def taken_of(folder: Path, patient: Patient) -> Taken:
    """What was kept of a patient beside the profile."""
    return Taken(**json.loads((folder / f"{patient.name}.taken.json").read_text()))
