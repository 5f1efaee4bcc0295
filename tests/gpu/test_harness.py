"""The GPU harness goes on with what was recorded, and works without what is not installed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bottleneck_doctor.analyse.predict import RESOURCE
from bottleneck_doctor.findings.registry import offered
from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile, encode_report
from tests.gpu import bare
from tests.gpu.examine import Seen
from tests.gpu.expected import FOLDER, PATIENTS, script
from tests.gpu.measure import output_of
from tests.gpu.patients.traced import SPAN, summary, union_us
from tests.gpu.sheet import METHOD, NOT_YET, TITLE, Sheet, page, write
from tests.gpu.test_examine import STARVED, judged, report, taken
from tests.lab.run import ROOT
from tests.lab.table import gpus
from tests.patients.patient import Patient

SEEN = judged(STARVED, report(), taken())


def test_a_new_section_replaces_the_devices_old_one_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(page([]))
    for machine, line in (("one", "old"), ("two", "kept"), ("one", "new")):
        write(path, Sheet(machine, lines={"waits": line}))
    text = path.read_text()
    assert text.startswith(TITLE + METHOD)
    assert NOT_YET not in text
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## two", "## one"]
    assert "- kept\n" in text
    assert "- new\n" in text
    assert "- old\n" not in text


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


SCRIPT = ROOT / "tests" / "gpu" / "patients" / "saturated.py"


@pytest.mark.slow
def test_the_profile_is_bdocs_and_so_is_the_report(tmp_path: Path) -> None:
    profile, options = tmp_path / "p.json", ["--device", "cpu", "--steps", "30", "--data", str(tmp_path)]
    run = [sys.executable, "-m", "tests.gpu.bare", "run", "--quiet", "--no-py-spy", "-o", str(profile)]
    assert output_of([*run, str(SCRIPT), *options]).startswith("step 30 loss ")
    told = json.loads(output_of([sys.executable, "-m", "tests.gpu.bare", "report", str(profile)]))
    again = write_up(decode_profile(profile.read_bytes()))
    assert told == json.loads(encode_report(again))


@pytest.mark.slow
def test_the_scripts_status_comes_back(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit(7)\n")
    run = [sys.executable, "-m", "tests.gpu.bare", "run", "-o", str(tmp_path / "p.json"), str(script)]
    assert subprocess.run(run, cwd=ROOT, capture_output=True, check=False).returncode == 7


def test_it_is_used_only_where_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bare.bdoc() == [sys.executable, "-m", "bottleneck_doctor"]
    monkeypatch.setattr(bare, "NEEDED", ("typer", "surely_not_installed"))
    assert bare.missing() == ["surely_not_installed"]
    assert bare.bdoc() == [sys.executable, "-m", "tests.gpu.bare"]


STAGE = set("stage clock speed traced tracer every_call ways".split())

every_patient = pytest.mark.parametrize("patient", PATIENTS, ids=lambda patient: patient.name)


def test_every_script_is_a_patient_and_every_patient_has_a_script() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - STAGE == {script(one).stem for one in PATIENTS}
    assert len({one.name for one in PATIENTS}) == len(PATIENTS)


def test_there_are_at_least_ten_ailments_with_twins_and_some_decoys() -> None:
    assert sum(one.twin is not None for one in PATIENTS) >= 10
    assert sum(one.group in ("healthy", "decoy") for one in PATIENTS) >= 2


@every_patient
def test_bounds_causes_and_remedies_exist(patient: Patient) -> None:
    assert patient.bounds <= {"cpu", "gpu", "io"}
    assert patient.causes <= RESOURCE.keys()
    assert (patient.remedies or frozenset()) | patient.never <= offered().keys()


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


def event(cat: str, name: str, ts: float, dur: float) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur}


TRACE = [
    {"ph": "M", "name": "process_name"},
    event("user_annotation", SPAN, 100.0, 1000.0),
    event("gpu_user_annotation", SPAN, 100.0, 1500.0),
    event("kernel", "before", 50.0, 10.0),
    event("kernel", "gemm", 200.0, 300.0),
    event("kernel", "gemm on another stream", 400.0, 300.0),
    event("kernel", "launched in the span, run after it", 1200.0, 100.0),
    event("gpu_memcpy", "Memcpy HtoD", 150.0, 40.0),
    event("cuda_runtime", "cudaLaunchKernel", 110.0, 5.0),
    event("cuda_runtime", "cudaStreamSynchronize", 300.0, 50.0),
    event("cuda_runtime", "cudaStreamSynchronize", 600.0, 50.0),
    event("cuda_driver", "cuStreamSynchronize_ptsz", 700.0, 5.0),
    event("cuda_runtime", "cudaEventQuery", 800.0, 1.0),
    event("cuda_runtime", "cudaDeviceSynchronize", 1150.0, 50.0),
]


def test_what_ran_is_counted_per_step() -> None:
    told = summary(TRACE, steps=2)
    assert told["kernel_s"] == (500 + 100) / 1e6 / 2
    assert told["copy_s"] == 40 / 1e6 / 2
    assert (told["kernels"], told["launches"]) == (1.5, 0.5)


def test_only_calls_of_the_span_that_wait_are_counted() -> None:
    assert summary(TRACE, steps=2)["synchronising"] == {
        "cuStreamSynchronize_ptsz": 1,
        "cudaStreamSynchronize": 2,
    }


def test_a_union_counts_no_instant_twice() -> None:
    assert union_us([(0, 10), (5, 2), (8, 4), (20, 1)]) == 13
    assert union_us([]) == 0
