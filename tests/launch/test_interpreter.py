"""Which Python runs the training."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from bottleneck_doctor.launch import command
from bottleneck_doctor.launch.command import CannotStart


@pytest.fixture
def torch_here(monkeypatch):
    """Says whether our own interpreter has torch."""

    def put(spec: ModuleSpec | None) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)

    return put


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A PATH on which only the given commands are found."""

    def put(*names: str) -> Path:
        for name in names:
            (tmp_path / name).touch(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return tmp_path

    return put


def test_the_interpreter_asked_for_wins_by_path_or_by_name(on_path):
    folder = on_path("python3.12")
    assert command.choose(sys.executable) == sys.executable
    assert command.choose("python3.12") == str(folder / "python3.12")


def test_an_interpreter_asked_for_that_is_not_there_is_refused_before_the_start(on_path):
    on_path("python")
    with pytest.raises(CannotStart, match=r"--python 'python9' is neither") as caught:
        command.choose("python9")
    assert caught.value.status == 2


def test_our_own_interpreter_runs_it_when_it_has_torch(torch_here, on_path):
    on_path("python")
    torch_here(ModuleSpec("torch", None, origin="/site-packages/torch/__init__.py"))
    assert command.choose() == sys.executable


def test_a_stray_folder_named_torch_is_not_torch(torch_here, on_path):
    folder = on_path("python")
    torch_here(ModuleSpec("torch", None, origin=None))
    assert command.choose() == str(folder / "python")


def test_without_torch_the_python_on_path_comes_before_python3_and_ours_is_last(torch_here, on_path):
    torch_here(None)
    folder = on_path()
    assert command.choose() == sys.executable
    on_path("python3")
    assert command.choose() == str(folder / "python3")
    on_path("python")
    assert command.choose() == str(folder / "python")


def test_a_torch_that_cannot_be_looked_up_counts_as_none(monkeypatch, on_path):
    folder = on_path("python")

    def broken(name: str) -> None:
        raise ValueError("torch.__spec__ is None")

    monkeypatch.setattr(importlib.util, "find_spec", broken)
    assert command.choose() == str(folder / "python")


def test_no_python_anywhere_is_refused(torch_here, monkeypatch):
    torch_here(None)
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CannotStart, match="--python PATH"):
        command.choose()
