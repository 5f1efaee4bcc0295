"""A probe is a process of its own: what it tells is kept, however it ends, and nothing of it stays."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from bottleneck_doctor.calibrate import calibrate as room
from bottleneck_doctor.calibrate.calibrate import Answer, ask


@pytest.fixture
def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the text of a probe named ``one`` goes."""
    monkeypatch.setattr(room, "PROBES", tmp_path)
    return tmp_path / "one.py"


def asked(probe: Path, source: str, seconds: float = 20.0) -> Answer:
    probe.write_text(source)
    return ask(sys.executable, "one", {"n": 3}, str(probe.parent), seconds)


def test_rows_come_back_and_what_modules_print_is_no_row(probe: Path) -> None:
    source = """
def main(request, tell):
    print("a library says hello"); print('{"also": "json"}')
    tell(subject="read", n=request["n"])
"""
    answer = asked(probe, source)
    assert answer == Answer([{"subject": "read", "n": 3}])


def test_what_was_told_before_a_failure_is_kept(probe: Path) -> None:
    answer = asked(probe, "def main(request, tell):\n    tell(subject='read')\n    raise ValueError")
    assert (answer.rows, answer.problem) == ([{"subject": "read"}], "its process ended with 1")


def test_a_probe_that_takes_too_long_is_ended_with_its_children(probe: Path) -> None:
    source = """
import os, time
def main(request, tell):
    child = os.fork()
    if not child:
        time.sleep(60)
    tell(subject="read", child=child)
    time.sleep(60)
"""
    began = time.monotonic()
    answer = asked(probe, source, seconds=2.0)
    assert answer.problem == "it took longer than 2 s"
    assert time.monotonic() - began < 30
    while _lives(answer.rows[0]["child"]):  # killed, but it takes the kernel a moment
        assert time.monotonic() - began < 30
        time.sleep(0.05)


def test_an_interrupt_ends_the_probe_and_keeps_its_rows(probe: Path) -> None:
    source = """
import os, signal, time
def main(request, tell):
    tell(subject="read")
    time.sleep(0.2)
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)
"""
    answer = asked(probe, source)
    assert (answer.rows, answer.interrupted) == ([{"subject": "read"}], True)


def test_an_interpreter_that_is_not_there_is_a_problem_and_no_error(probe: Path) -> None:
    probe.write_text("")
    answer = ask("/no/such/python", "one", {}, str(probe.parent), 5.0)
    assert "could not be started" in answer.problem


def test_its_folder_of_names_does_not_hide_the_users_modules(probe: Path) -> None:
    (probe.parent / "storage.py").write_text("")
    source = "import sys\ndef main(request, tell):\n    tell(subject=__file__.rpartition('/')[0] in sys.path)"
    assert asked(probe, source).rows == [{"subject": False}]


def _lives(pid: int) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")
