"""What may stand after ``bdoc run``, and what is refused before anything is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from bottleneck_doctor.launch.command import CannotStart, Command, plan


def refusal(**forms: object) -> CannotStart:
    given = {"script": None, "module": None, "launcher": None, "args": [], "python": "python", **forms}
    with pytest.raises(CannotStart) as caught:
        plan(**given)  # type: ignore[arg-type]
    return caught.value


def test_a_script_is_run_as_typed_with_its_arguments_untouched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    args = ["--output", "x", "-m", "--", "", "ü", "a b"]
    assert plan("train.py", None, None, args, "/py") == Command(
        ("/py", "train.py", *args), "train.py", "script"
    )


def test_a_module_is_run_with_dash_m_and_not_looked_for():
    assert plan(None, "no.such", None, ["--lr", "1"], "/py") == Command(
        ("/py", "-m", "no.such", "--lr", "1"), "no.such", "module"
    )


def test_a_launcher_is_run_word_for_word():
    assert plan(None, None, ["sh", "-c", "exit 3"], ["x"], "/py") == Command(
        ("sh", "-c", "exit 3", "x"), None, "launcher"
    )


def test_a_script_that_is_not_text_is_pythons_problem(tmp_path):
    script = tmp_path / "train.py"
    script.write_bytes(b"\xff\xfe\x00")
    assert plan(str(script), None, None, [], "/py").argv == ("/py", str(script))


def test_a_folder_with_a_main_runs_as_python_would_run_it(tmp_path):
    (tmp_path / "__main__.py").touch()
    assert plan(str(tmp_path), None, None, [], "/py").kind == "script"


def test_a_dash_reads_the_script_from_stdin_as_in_python():
    assert plan("-", None, None, [], "/py").argv == ("/py", "-")


def test_a_missing_script_is_refused_with_its_name_and_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = refusal(script="trian.py")
    assert (error.slug, error.status) == ("script-not-found", 2)
    assert "'trian.py'" in str(error)
    assert str(tmp_path) in str(error)


def test_a_command_without_its_dashes_is_told_where_it_belongs():
    assert str(refusal(script="sh")).endswith("a command follows '--': bdoc run -- sh ...")


def test_a_folder_without_a_main_is_refused(tmp_path):
    assert refusal(script=str(tmp_path)).slug == "script-is-directory"


def test_an_unreadable_script_is_refused(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    assert refusal(script=str(script)).slug == "script-unreadable"


@pytest.mark.parametrize("name", ["", "--lr"])
def test_dash_m_without_a_name_is_refused(name):
    assert refusal(module=name).slug == "module-name-missing"


@pytest.mark.parametrize("launcher", [[], [""]])
def test_two_dashes_without_a_command_are_refused(launcher):
    assert refusal(launcher=launcher).slug == "launcher-missing"


def test_a_launcher_that_is_nowhere_on_path_is_refused():
    error = refusal(launcher=["torchrunn", "train.py"])
    assert error.slug == "launcher-not-found"
    assert "'torchrunn': it was not found on PATH" in str(error)


def test_a_launcher_that_cannot_be_executed_is_refused(tmp_path):
    launcher = tmp_path / "train.sh"
    launcher.touch(0o600)
    assert "is not an executable file" in str(refusal(launcher=[str(launcher)]))


def test_nothing_at_all_is_refused():
    assert refusal().slug == "nothing-to-run"


def test_two_forms_at_once_are_a_defect_of_the_caller():
    with pytest.raises(AssertionError):
        plan("train.py", "train", None, [], sys.executable)
