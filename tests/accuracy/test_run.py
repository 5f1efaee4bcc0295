"""The twin is cured as the report says, not as the table once assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.accuracy.__main__ import as_told
from tests.patients.expected import PATIENTS

PATIENT = next(one for one in PATIENTS if one.twin == "workers-auto")


def report(*remedies: tuple[str, str | None]) -> dict[str, Any]:
    return {"remedies": [{"id": name, "fix": {"snippet": snippet}} for name, snippet in remedies]}


def test_the_twin_gets_the_number_of_workers_that_was_advised() -> None:
    advised = report(
        ("else", "num_workers=9"), ("workers-auto", "DataLoader(..., num_workers=6, shuffle=True)")
    )
    assert as_told(PATIENT, advised, "workers-auto") == ["--cured", "--workers", "6"]


def test_without_advice_or_with_another_cure_the_twin_is_the_tables() -> None:
    assert as_told(PATIENT, report(), "workers-auto") == ["--cured"]
    assert as_told(PATIENT, report(("workers-auto", None)), "workers-auto") == ["--cured"]
    advised = report(("workers-auto", "num_workers=6"))
    assert as_told(replace(PATIENT, twin="pack-shards"), advised, "pack-shards") == ["--cured"]
    several = replace(PATIENT, treatments=("pack-shards", "workers-auto"))
    assert as_told(several, advised, "pack-shards") == ["--cured", "pack-shards"]
    assert as_told(several, advised, "workers-auto") == ["--cured", "workers-auto", "--workers", "6"]
