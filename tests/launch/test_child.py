"""A training that cannot be started says why, with the status a shell would give."""

from __future__ import annotations

import os

import pytest

from bottleneck_doctor.launch.command import CannotStart, Command
from bottleneck_doctor.launch.supervise import spawn


def refusal(*argv: str) -> CannotStart:
    with pytest.raises(CannotStart) as caught:
        spawn(Command(argv, None, "launcher"), os.environ, [])
    return caught.value


def test_a_program_that_vanished_is_127():
    error = refusal("/no/such/program")
    assert (error.slug, error.status) == ("start-not-found", 127)
    assert "cannot start '/no/such/program': no such file or directory" in str(error)


def test_a_program_whose_interpreter_is_missing_is_127_and_says_so(tmp_path):
    script = tmp_path / "train"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    error = refusal(str(script))
    assert error.status == 127
    assert "the interpreter named in its first line" in str(error)


def test_a_program_without_permission_is_126(tmp_path):
    script = tmp_path / "train"
    script.touch(0o600)
    error = refusal(str(script))
    assert (error.slug, error.status) == ("start-refused", 126)
    assert "permission denied" in str(error)


def test_a_script_without_a_first_line_is_126_and_says_what_to_do(tmp_path):
    script = tmp_path / "train"
    script.write_text("python train.py\n")
    script.chmod(0o755)
    error = refusal(str(script))
    assert error.status == 126
    assert "'#!/bin/sh'" in str(error)


def test_the_status_reaches_the_caller_of_the_supervisor(stage):
    script = stage.folder / "train"
    script.write_text("no first line\n")
    script.chmod(0o755)
    assert stage.start(str(script)).wait(30) == 126
