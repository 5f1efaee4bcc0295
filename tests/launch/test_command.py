"""What stands after bdoc run becomes a command, its interpreter and environment, or says why not."""

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest.mock import Mock

import pytest

from bottleneck_doctor.launch import start
from bottleneck_doctor.launch.start import CannotStart, Command, instrumented, plan
from bottleneck_doctor.launch.supervise import spawn


@pytest.mark.parametrize(
    ("forms", "slug", "text"),
    [
        ({"script": "other.py"}, "script-not-found", "'other.py' does not exist, seen from"),
        ({"script": "./hiden.py"}, "script-not-found", "did you mean ./hidden.py?"),
        ({"script": "sh"}, "script-not-found", "a command follows '--': bdoc run -- sh ..."),
        ({"script": "folder"}, "script-is-directory", "without a __main__.py"),
        ({"script": "hidden.py"}, "script-unreadable", "check its permissions"),
        ({"module": ""}, "module-name-missing", "-m needs the name of a module"),
        ({"module": "--lr"}, "module-name-missing", "'--lr'"),
        ({"launcher": []}, "launcher-missing", "'--' must be followed by a command"),
        ({"launcher": [""]}, "launcher-missing", "'--' must be followed by a command"),
        ({"launcher": ["torchrunn"]}, "launcher-not-found", "'torchrunn': it was not found on PATH"),
        ({"launcher": ["./hidden.py"]}, "launcher-not-found", "is not an executable file"),
        ({}, "nothing-to-run", "nothing to run"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_reason(forms, slug, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("hidden.py").touch(0o600)
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != "hidden.py"
    )  # root may read everything
    given = {"script": None, "module": None, "launcher": None, "args": [], "python": "python", **forms}
    with pytest.raises(CannotStart) as caught:
        plan(**given)
    assert (caught.value.slug, caught.value.status) == (slug, 2)
    assert text in str(caught.value)


@pytest.fixture
def torch_here(monkeypatch):
    """Says whether our own interpreter has torch."""

    def put(spec: ModuleSpec | Exception | None) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", Mock(side_effect=[spec] * 9))

    return put


@pytest.fixture
def on_path(tmp_path, monkeypatch):
    """A PATH on which only the given commands are found."""

    def put(*names: str) -> Path:
        for name in names:
            (tmp_path / name).touch(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("VIRTUAL_ENV", raising=False)
        return tmp_path

    return put


def test_the_interpreter_asked_for_wins_by_path_or_by_name(on_path):
    folder = on_path("python3.12")
    assert start.choose(sys.executable) == sys.executable
    assert start.choose("python3.12") == str(folder / "python3.12")


def test_an_interpreter_asked_for_that_is_not_there_is_refused_before_the_start(on_path):
    on_path("python")
    with pytest.raises(CannotStart, match=r"--python 'python9' is neither") as caught:
        start.choose("python9")
    assert caught.value.status == 2


@pytest.mark.parametrize("found", [None, ModuleSpec("torch", None, origin=None), ValueError("no __spec__")])
def test_without_torch_the_python_on_path_comes_before_python3_and_our_own_is_last(
    found, torch_here, on_path
):
    """A stray folder named torch has no origin, and is not torch."""
    torch_here(found)
    folder = on_path()
    assert start.choose() == sys.executable
    on_path("python3")
    assert start.choose() == str(folder / "python3")
    on_path("python")
    assert start.choose() == str(folder / "python")


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX", ""])
def test_an_environment_with_torch_comes_before_the_python_on_path(
    variable, torch_here, on_path, monkeypatch
):
    torch_here(None)
    folder = on_path("python")
    place = folder / variable if variable else Path(".venv")
    (place / "bin").mkdir(parents=True)
    (place / "bin" / "python").touch(0o755)
    monkeypatch.setenv(variable or "OTHER", str(place))
    assert start.choose() == str(folder / "python"), "it has no torch"
    torch = place / "lib" / "python3.12" / "site-packages" / "torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").touch()
    assert start.choose() == str(place / "bin" / "python")
    assert [start.is_odd(one) for one in (start.choose(), "python")] == [True, False]
    place.chmod(0o777)  # any user may have put another Python there
    assert (start.choose() == str(folder / "python")) is (not variable)


def test_a_tools_environment_is_not_what_python_is(on_path, torch_here, monkeypatch):
    """uvx puts the environment of bdoc first on PATH, which has no torch."""
    torch_here(None)
    folder = on_path("python")
    tool = folder / "uv" / "archive"
    (tool / "bin").mkdir(parents=True)
    (tool / "bin" / "python").touch(0o755)
    monkeypatch.setattr(sys, "prefix", str(tool))
    monkeypatch.setenv("PATH", f"{tool / 'bin'}{os.pathsep}{folder}")
    assert start.choose() == str(folder / "python")


INJECT, AGENT, RUN = "/pkg/inject", "/pkg/agent", "/tmp/run"


def made(environ, settings=None, run=RUN):
    return instrumented(environ, run, INJECT, AGENT, settings or {})


def test_only_the_documented_variables_are_added():
    environ = {"HOME": "/root", "LANG": "C", "ODD\udcff": "\udcfe"}
    assert made(environ) == {**environ, "PYTHONPATH": INJECT, "BDOC_RUN": RUN, "BDOC_AGENT": AGENT}


@pytest.mark.parametrize(("before", "after"), [("/mine::/yours", f"{INJECT}:/mine::/yours"), ("", INJECT)])
def test_the_users_python_path_stays_behind_with_its_empty_entries(before, after):
    environ = {"PYTHONPATH": before, "BDOC_CACHE": "1"}
    assert made(environ)["PYTHONPATH"] == after
    assert made(environ)["BDOC_CACHE"] == "1", "a variable of the user's own: no run is around us"
    assert environ["PYTHONPATH"] == before


def test_a_run_inside_a_run_takes_over_and_is_injected_once():
    outer = made({"PYTHONPATH": "/mine", "BDOC": "user's"}, {"max_steps": 9})
    inner = made(outer, {"max_seconds": 5}, run="/tmp/inner")
    assert inner == {
        "PYTHONPATH": f"{INJECT}:/mine",
        "BDOC": "user's",
        "BDOC_RUN": "/tmp/inner",
        "BDOC_AGENT": AGENT,
        "BDOC_MAX_SECONDS": "5",
    }


@pytest.mark.parametrize(
    ("text", "mode", "status", "slug", "words"),
    [
        (None, 0, 127, "start-not-found", "no such file or directory"),
        ("#!/no/such/python\n", 0o755, 127, "start-not-found", "the interpreter named in its first line"),
        ("", 0o600, 126, "start-refused", "permission denied"),
        ("python train.py\n", 0o755, 126, "start-refused", "'#!/bin/sh'"),
    ],
)
def test_a_program_that_cannot_start_has_the_status_of_a_shell(text, mode, status, slug, words, stage):
    program = stage.folder / "train"
    if text is not None:
        program.write_text(text)
        program.chmod(mode)
    with pytest.raises(CannotStart) as caught:
        spawn(Command((str(program),), None), os.environ, [])
    assert (caught.value.slug, caught.value.status) == (slug, status)
    assert words in str(caught.value)
    if mode == 0o755 and status == 126:
        assert stage.start(str(program)).wait(30) == status
