"""The package as a library: one function, typed, and nothing else imported before it is called."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bottleneck_doctor as bd
from bottleneck_doctor.model.codec import encode_profile
from tests.model.profiles import PROFILE


def test_a_profile_becomes_the_report_that_the_command_shows(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_bytes(encode_profile(PROFILE))
    report = bd.load(file)
    assert report.verdict.bound in ("cpu", "gpu", "io", "comm", "latency", "balanced", "inconclusive")
    assert report.metrics["step_time_s"].unit == "s"


def test_what_is_no_profile_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text("{}")
    for path in (file, tmp_path / "missing.json"):
        with pytest.raises(ValueError, match=path.name) as refused:
            bd.load(path)
        assert "\n" not in str(refused.value)


def test_importing_the_package_imports_nothing_else() -> None:
    question = (
        "import sys; before = set(sys.modules); import bottleneck_doctor; print(set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True)
    assert set(eval(done.stdout)) <= {"bottleneck_doctor", "__future__"}
