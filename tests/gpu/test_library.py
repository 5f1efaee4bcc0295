"""Wheels become importable without pip, behind everything that is installed."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from tests.gpu.library import unpacked, use


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "spy-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("spied.py", "SEEN = 1\n")
        wheel.writestr("spy-1.0.data/scripts/spy", "#!/bin/sh\n")
    return tmp_path


def test_a_wheels_code_and_commands_are_found(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/data/mine")
    monkeypatch.setenv("PATH", "/usr/bin")
    use(wheels)
    place = Path(sys.path[-1])
    assert (place / "spied.py").read_text() == "SEEN = 1\n"
    assert os.access(place / "bin" / "spy", os.X_OK)
    assert os.environ["PYTHONPATH"].split(":") == ["/data/mine", str(place)]
    assert os.environ["PATH"].split(":")[-1] == str(place / "bin")


def test_a_folder_without_wheels_is_used_as_it_is(tmp_path: Path) -> None:
    assert unpacked(tmp_path) == tmp_path.resolve()


def test_without_a_folder_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = list(sys.path)
    use(None)
    assert sys.path == before
