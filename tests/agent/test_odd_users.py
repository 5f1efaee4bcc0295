"""Forty odd users: each prints under bdoc what it prints plainly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.odd_users import data, loops, samples, surroundings  # noqa: F401 - they list their users
from tests.agent.odd_users.rows import USERS
from tests.house.source import ROOT

SCRIPT = "tests.agent.odd_users"


def _printed(command: list[str], folder: Path) -> dict[str, str]:
    """What each user printed, by name; the process must have ended well."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [*command, "-m", SCRIPT], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    sections = [section.partition("\n") for section in done.stdout.split("## ")[1:]]
    return {name: text for name, _, text in sections}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    folder = tmp_path_factory.mktemp("odd")
    plain = _printed([sys.executable], folder)
    bdoc = [sys.executable, "-m", "bottleneck_doctor", "run", "--quiet", "--no-py-spy"]
    return plain, _printed(bdoc, folder)


@pytest.mark.parametrize("name", USERS)
def test_an_odd_user_sees_no_difference(name: str, both: tuple[dict[str, str], dict[str, str]]) -> None:
    plain, watched = both
    assert plain[name]
    assert watched[name] == plain[name]


def test_there_are_forty() -> None:
    assert len(USERS) >= 40
