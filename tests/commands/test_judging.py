"""The verdict so far comes from a process apart, which may be killed, starve, or not be begun at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.commands import watching
from bottleneck_doctor.commands.watching import AGAIN_NS, EVERY_NS, Judge
from bottleneck_doctor.launch.run_registry import HANDED_OVER, Running
from bottleneck_doctor.model.codec import encode_live
from bottleneck_doctor.model.run import Announcement, Handover, Lifetime, Machine
from tests.house.source import ROOT
from tests.launch.conftest import until

SAID = Announcement(Lifetime(7, 9), "here", ["python", "a.py"], "a.py", "/", "now", 5, "/p.json")
HANDOVER = Handover(7, Machine("host", "6.1", "cpu", 2, 2.0))


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine busy with other tests must not make these wait; nor are we to become nice for ever."""
    monkeypatch.setattr(watching, "_stand_alone", lambda: None)
    monkeypatch.setattr(watching, "_be_idle", lambda: None)
    monkeypatch.setattr(watching, "step_back", lambda by: None)


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    """Of a run whose agents have written nothing but that they are there."""
    EventWriter(str(tmp_path))
    (tmp_path / HANDED_OVER).write_bytes(encode_live(HANDOVER))
    made = Judge(Running(tmp_path, SAID))
    yield made
    made.close()


def child_of(judge: Judge) -> int:
    assert judge._child
    return judge._child


def test_a_verdict_is_asked_for_and_taken_later(judge: Judge) -> None:
    judge.look(0)
    assert (judge.is_asked, judge.report) == (True, None)
    until(lambda: judge.look(1) or judge.report, "a verdict", lambda: judge.problem)
    assert judge.report is not None
    assert judge.report.verdict.bound == "inconclusive"
    assert judge.cost_s > 0


def test_the_next_one_waits_and_comes_from_the_same_process(judge: Judge) -> None:
    judge.look(0)
    child = child_of(judge)
    until(lambda: judge.look(1) or judge.report, "a verdict", lambda: judge.problem)
    judge.look(EVERY_NS - 1)
    assert not judge.is_asked
    judge.look(1 << 62)
    assert (judge.is_asked, judge._child) == (True, child)


def test_it_stands_alone_and_then_takes_idle_time_only() -> None:
    """In a process of its own, which can say no more than whether all of this held."""
    source = """
import os, sys
from bottleneck_doctor.commands import watching
watching._stand_alone()
first = os.getsid(0) == os.getpid() and open("/proc/self/oom_score_adj").read().strip() == "1000"
watching._be_idle()
os._exit(0 if first and os.sched_getscheduler(0) == os.SCHED_IDLE else 1)
"""
    assert subprocess.run([sys.executable, "-c", source], cwd=ROOT, check=False).returncode == 0


def test_one_that_is_killed_is_said_to_be_and_begun_again_later(judge: Judge) -> None:
    judge.look(0)
    os.kill(child_of(judge), signal.SIGKILL)
    until(lambda: judge.look(1) or judge.problem, "the end of the judge")
    assert "ended from outside" in judge.problem
    judge.look(AGAIN_NS)
    assert not judge.is_asked
    judge.look(AGAIN_NS + 1)
    assert (judge.is_asked, judge.problem) == (True, "")


def test_no_memory_is_taken_that_the_training_may_need(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_available_bytes", lambda: 1000)
    judge.look(0)
    assert not judge.is_asked
    assert "more memory than is free" in judge.problem


def test_a_folder_that_is_gone_gives_no_verdict_and_no_complaint(tmp_path: Path) -> None:
    judge = Judge(Running(tmp_path / "gone", SAID))
    judge.look(0)
    until(lambda: judge.look(1) or not judge.is_asked, "an answer")
    judge.close()
    assert (judge.report, judge.problem) == (None, "")


def test_whoever_leaves_takes_the_judge_along(judge: Judge) -> None:
    judge.look(0)
    child = child_of(judge)
    judge.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
