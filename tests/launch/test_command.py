"""What stands after bdoc run becomes a command, its interpreter and environment, or says why not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from bottleneck_doctor.launch import command
from bottleneck_doctor.launch.command import CannotStart, Command, instrumented, plan
from bottleneck_doctor.launch.supervise import spawn


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


INJECT, AGENT, RUN = "/pkg/inject", "/pkg/agent", "/tmp/run"


def made(environ, settings=None, run=RUN):
    return instrumented(environ, run, INJECT, AGENT, settings or {})


def test_only_the_documented_variables_are_added():
    environ = {"HOME": "/root", "LANG": "C", "ODD\udcff": "\udcfe"}
    assert made(environ) == {**environ, "PYTHONPATH": INJECT, "BDOC_RUN": RUN, "BDOC_AGENT": AGENT}


def test_the_environment_given_is_not_changed():
    environ = {"PYTHONPATH": "/mine"}
    made(environ, {"max_steps": 1})
    assert environ == {"PYTHONPATH": "/mine"}


def test_the_users_python_path_stays_behind_ours_with_its_empty_entries():
    assert made({"PYTHONPATH": "/mine::/yours"})["PYTHONPATH"] == f"{INJECT}:/mine::/yours"


def test_an_empty_python_path_does_not_become_the_working_directory():
    assert made({"PYTHONPATH": ""})["PYTHONPATH"] == INJECT


def test_settings_become_strings_and_absent_ones_stay_away():
    result = made({}, {"tracer": 9, "trial": "/tmp/order.json", "data_fn": None})
    assert result == {**made({}), "BDOC_TRACER": "9", "BDOC_TRIAL": "/tmp/order.json"}


def test_paths_hold_when_the_training_changes_its_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = instrumented({}, "run", "inject", "agent", {})
    assert (result["BDOC_RUN"], result["PYTHONPATH"], result["BDOC_AGENT"]) == (
        str(tmp_path / "run"),
        str(tmp_path / "inject"),
        str(tmp_path / "agent"),
    )


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


def test_variables_of_the_users_own_that_look_like_ours_stay_when_no_run_is_around_us():
    assert made({"BDOC_CACHE": "1"})["BDOC_CACHE"] == "1"


def child_refusal(*argv: str) -> CannotStart:
    with pytest.raises(CannotStart) as caught:
        spawn(Command(argv, None, "launcher"), os.environ, [])
    return caught.value


def test_a_program_that_vanished_is_127():
    error = child_refusal("/no/such/program")
    assert (error.slug, error.status) == ("start-not-found", 127)
    assert "cannot start '/no/such/program': no such file or directory" in str(error)


def test_a_program_whose_interpreter_is_missing_is_127_and_says_so(tmp_path):
    script = tmp_path / "train"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    error = child_refusal(str(script))
    assert error.status == 127
    assert "the interpreter named in its first line" in str(error)


def test_a_program_without_permission_is_126(tmp_path):
    script = tmp_path / "train"
    script.touch(0o600)
    error = child_refusal(str(script))
    assert (error.slug, error.status) == ("start-refused", 126)
    assert "permission denied" in str(error)


def test_a_script_without_a_first_line_is_126_and_says_what_to_do(tmp_path):
    script = tmp_path / "train"
    script.write_text("python train.py\n")
    script.chmod(0o755)
    error = child_refusal(str(script))
    assert error.status == 126
    assert "'#!/bin/sh'" in str(error)


def test_the_status_reaches_the_caller_of_the_supervisor(stage):
    script = stage.folder / "train"
    script.write_text("no first line\n")
    script.chmod(0o755)
    assert stage.start(str(script)).wait(30) == 126
