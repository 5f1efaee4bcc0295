"""The first questions to a GPU: a crash, a difference or a slower pace fails, with what it means."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu import first
from tests.gpu.assumed import QUESTIONS
from tests.gpu.first import Line, assumptions, compared, measured, not_slower, same, shown
from tests.lab.run import execute

Done = subprocess.CompletedProcess[str]
ENDED = Done([], 0, "parameters 1a\n", "")
FAILED = Done([], 1, "", "Traceback ...\nRuntimeError: CUDA error: device-side assert triggered\n")
ABORTED = Done([], -6, "", "terminate called after throwing an instance of 'c10::Error'\n")
SEEN = {"table": {"looks": [4, 4]}, "window": {"steps": 5}}


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (same("forks", ENDED, ENDED), True),
        (same("forks", ENDED, Done([], 0, "parameters 2b\n", "")), False),
        (same("forks", FAILED, FAILED), False),
        (same("sticky", FAILED, FAILED), True),
        (same("sticky", FAILED, ABORTED), False),
        (same("sticky", ENDED, ENDED), False),
        (not_slower("later steps over earlier ones 1.01", "later steps over earlier ones 1.02"), True),
        (not_slower("later steps over earlier ones 0.9", "later steps over earlier ones 1.0"), False),
        (not_slower("", "later steps over earlier ones 1.0"), False),
        (measured("forks", {"device": SEEN}), True),
        (measured("forks", {"device": {**SEEN, "silent": "RuntimeError: no"}}), False),
        (measured("forks", {"device": {**SEEN, "window": None}}), False),
        (measured("sticky", {"device": {**SEEN, "window": None}}), True),
        (measured("forks", {}), False),
    ],
)
def test_an_answer_is_right_or_says_what_it_means(line: Line, right: bool) -> None:
    assert line.right is right
    assert len(shown(line)) == (1 if right else 3)
    assert line.means


@pytest.mark.slow
@pytest.mark.long
def test_where_there_is_no_device_each_assumption_fails_by_itself(tmp_path: Path) -> None:
    lines = list(assumptions(tmp_path))
    assert [line.name for line in lines] == [one.name for one in QUESTIONS]
    assert {line.right for line in lines} == {False}
    assert not any("no answer" in line.found for line in lines), "one that raises ends none of the others"


def test_a_crash_answers_for_all_that_were_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps([QUESTIONS[0].name, True, "None"])
    monkeypatch.setattr(first, "execute", lambda *_, **__: Done([], -6, answer + "\n", "terminate called"))
    right, *others = assumptions(tmp_path)
    assert right.right
    assert {(line.right, "ended with -6" in line.found) for line in others} == {(False, True)}


@pytest.mark.slow
@pytest.mark.long
def test_a_training_is_compared_on_the_cpu_and_no_device_is_seen(tmp_path: Path) -> None:
    equal, seen = compared("forks", 40, tmp_path)
    assert (equal.right, equal.found) == (True, "the same, status 0")
    assert not seen.right


@pytest.mark.slow
@pytest.mark.long
def test_without_a_device_one_line_says_so() -> None:
    done = execute([sys.executable, "-m", "tests.gpu.first"], CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "no CUDA device here, or no torch that was built for it: nothing was asked\n"
