"""The GPU harness goes on with what was recorded, and works without what is not installed."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest

from tests.gpu.examine import Seen
from tests.gpu.expected import FOLDER, PATIENTS, script
from tests.gpu.sheet import METHOD, NOT_YET, TITLE, Sheet
from tests.gpu.test_examine import STARVED, judged, report, taken
from tests.lab.run import ROOT
from tests.lab.table import gpus
from tests.patients.patient import Patient

SEEN = judged(STARVED, report(), taken())


def test_the_published_page_is_such_a_page() -> None:
    text = (ROOT / "docs" / "accuracy-gpu.md").read_text(encoding="utf-8")
    assert text.startswith(TITLE + METHOD), "write it anew: tests.gpu.sheet.page"
    assert (NOT_YET in text) == (text.count("\n## ") == 1 and "| training |" not in text)


def test_the_page_about_cpus_says_what_is_known_of_gpus() -> None:
    said = gpus((ROOT / "docs" / "accuracy-gpu.md").read_text(encoding="utf-8"))
    page_of_cpus = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert said in page_of_cpus, "write it anew: python -m tests.accuracy --again tests/golden/accuracy"
    assert gpus("# a\n## NVIDIA A, 8 cores\n\n## B\n") == "GPUs: [NVIDIA A, 8 cores; B](accuracy-gpu.md)."


def sheet_of(*seen: Seen, **more: Any) -> Sheet:
    return Sheet("box", {str(number): one for number, one in enumerate(seen)}, **more)


def test_one_wrong_bound_one_failure_or_harm_makes_the_whole_wrong() -> None:
    assert sheet_of(SEEN).right
    wrong = replace(SEEN, judgement=replace(SEEN.judgement, bound_right=False))
    changed = replace(SEEN, judgement=replace(SEEN.judgement, same_output=False))
    late = replace(SEEN, judgement=replace(SEEN.judgement, wait_right=False))
    assert [sheet_of(SEEN, one).right for one in (wrong, changed, late)] == [False] * 3
    assert not sheet_of(SEEN, failed={"graphed": "why"}).right
    assert not sheet_of(SEEN, harm={"waits": True}).right


every_patient = pytest.mark.parametrize("patient", PATIENTS, ids=lambda patient: patient.name)


@every_patient
def test_an_ailment_has_an_acceptable_twin_and_a_healthy_one_has_none(patient: Patient) -> None:
    assert (patient.twin is not None) == (patient.group == "ailment")
    assert patient.twin is None or patient.twin in (patient.remedies or ())
    assert "stage.cured" in script(patient).read_text() or patient.twin is None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_truth_is_independent_of_bdoc(path: str) -> None:
    """No script, and nothing that it stands on, imports the package that it is to judge."""
    tree = ast.parse((FOLDER / path).read_text())
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    imported += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert not [name for name in imported if name.split(".")[0] in ("bottleneck_doctor", "tests")]
