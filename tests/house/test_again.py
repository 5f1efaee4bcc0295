"""A test that failed is asked once more of something new: what its module's fixtures made is made again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

FAILS_ONCE = """
import pytest

made = []

@pytest.fixture(scope="module")
def run():
    made.append(1)
    yield len(made)
    made.append("cleared")

@pytest.fixture(scope="module")
def profile(run):
    return 10 * run

def test_passes_on_the_first(profile):
    assert (profile, made) == (10, [1])

def test_passes_on_the_second(profile):
    assert profile > 10

def test_stays_with_the_second(profile):
    assert (profile, made) == (30, [1, "cleared", 1])
"""


def test_a_second_try_is_of_a_new_run(tmp_path: Path) -> None:
    pytest.importorskip("pytest_rerunfailures")
    (tmp_path / "test_it.py").write_text(FAILS_ONCE)
    how = ["-p", "tests.conftest", "-p", "no:cacheprovider", "--reruns", "1", "-q", "test_it.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *how],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed, 1 rerun" in done.stdout, done.stdout
