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
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "spy-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("spied.py", "SEEN = 1\n")
        wheel.writestr("spy-1.0.data/scripts/spy", "#!/bin/sh\n")
    return folder


def test_a_wheels_code_and_commands_are_found(
    wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/data/mine")
    monkeypatch.setenv("PATH", "/usr/bin")
    use(wheels, tmp_path)
    place = Path(sys.path[-1])
    assert place.parent == tmp_path
    assert (place / "spied.py").read_text() == "SEEN = 1\n"
    assert os.access(place / "bin" / "spy", os.X_OK)
    assert os.environ["PYTHONPATH"].split(":") == ["/data/mine", str(place)]
    assert os.environ["PATH"].split(":")[-1] == str(place / "bin")


def test_a_folder_without_wheels_is_used_as_it_is(tmp_path: Path) -> None:
    assert unpacked(tmp_path, tmp_path / "lib") == tmp_path.resolve()


def test_without_a_folder_nothing_changes(tmp_path: Path) -> None:
    before = list(sys.path)
    use(None, tmp_path)
    assert sys.path == before
