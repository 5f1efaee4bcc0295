"""What diagnoses are held against: ``patients.toml``, one table for each training script of this folder."""

import importlib
import sys
from pathlib import Path
from typing import Any

from tests.patients.patient import Patient, ReadLimit, ids, script

__all__ = ["PATIENTS", "Patient", "ReadLimit", "script"]

SETS = "bounds causes remedies never bounds_without_limit".split()


def _patient(name: str, written: dict[str, Any]) -> Patient:
    fields = written | {key: ids(*written[key].split()) for key in SETS if key in written}
    if "limit" in written:
        fields["limit"] = ReadLimit(**written["limit"])
    if written.get("wait_tolerance") is False:
        fields["wait_tolerance"] = None
    return Patient(name=name, **fields)


_toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
PATIENTS: tuple[Patient, ...] = tuple(
    _patient(name, written)
    for name, written in _toml.loads(Path(__file__).with_name("patients.toml").read_text()).items()
)
