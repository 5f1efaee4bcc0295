"""Without bdoc's dependencies the same profile and the same report are made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.findings.report import write_up
from bottleneck_doctor.model.codec import decode_profile, encode_report
from tests.gpu import bare
from tests.gpu.measure import output_of
from tests.lab.run import ROOT

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
