"""The table that diagnoses are held against: every list in ``table/``. The folder is the registry."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.patients.patient import Patient, ReadLimit, script

__all__ = ["PATIENTS", "Patient", "ReadLimit", "script"]

TABLES = sorted(file.stem for file in Path(__file__).with_name("table").glob("[a-z]*.py"))

PATIENTS: tuple[Patient, ...] = tuple(
    patient for name in TABLES for patient in import_module(f"tests.patients.table.{name}").PATIENTS
)
