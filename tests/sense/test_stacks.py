"""Stacks: when they are sampled, by whom, and what is kept of them."""

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from bottleneck_doctor.model.instruments import Stack
from bottleneck_doctor.sense import pyspy
from bottleneck_doctor.sense.pyspy import (
    INSTALL,
    KINDS,
    REPAIR,
    StackWindow,
    add_up,
    compared,
    explain,
    find_py_spy,
    parse_folded,
)
from tests.sense.conftest import Plant, Start

PATIENCE_S = 30.0
Pretend = Callable[[str], None]

needs_py_spy = pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")

TRAINING = """
import multiprocessing, os, sys, threading
parent = os.getpid()
def decode():
    while os.getppid() == parent:  # the test ends the parent the hard way, and nobody must spin on
        sum(range(1000))
def work(started):
    started.set()
    decode()
started = multiprocessing.get_context("fork").Event()
worker = multiprocessing.get_context("fork").Process(target=work, args=(started,), daemon=True)
worker.start()
started.wait()
def wait_for_batch():
    threading.Event().wait()
print("ready", worker.pid, flush=True)
wait_for_batch()
"""


def window_of(*pids: int, seconds: float = 1, rate_hz: int = 50, kind: str = "every") -> StackWindow:
    return StackWindow(pids, seconds, rate_hz, KINDS[kind])


def taken(window: StackWindow) -> list[Stack]:
    """The stacks of all targets."""
    return [stack for stacks in window.by_target.values() for stack in stacks]


def finish(window: StackWindow) -> list[Stack]:
    """Polls until the window is over; skips the test where py-spy is not let in."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not window.is_over():
        assert time.monotonic() < deadline_s, "the window never ended"
        time.sleep(0.02)
    if any("may not look" in gap.why for gap in window.gaps):
        pytest.skip(f"py-spy may not look here: {window.gaps[0].why}")
    return taken(window)


def spies() -> list[str]:
    """Names of our children that are py-spy or pretend to be, ended ones that nobody waited for included."""
    return [name for child in psutil.Process().children() if "spy" in (name := child.name())]


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Puts a Python script in the place of py-spy; ``output`` is where the stacks go."""

    def write(body: str) -> None:
        path = tmp_path / "py-spy"
        path.write_text(
            f"#!{sys.executable}\nimport sys, time\n"
            f"output = sys.argv[sys.argv.index('--output') + 1]\n{body}\n"
        )
        path.chmod(0o755)
        monkeypatch.setattr(pyspy, "find_py_spy", lambda: str(path))

    return write


@needs_py_spy
@pytest.mark.slow
def test_a_training_and_its_forked_worker_are_both_seen(start: Start, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        TRAINING.replace('print("ready", worker.pid, flush=True)', 'print("ready", flush=True)')
    )
    child = start("import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')", str(script))
    window = window_of(child.pid)
    stacks = finish(window)
    frames = {
        stack.pid: [frame for one in stacks if one.pid == stack.pid for frame in one.frames]
        for stack in stacks
    }
    assert window.gaps == []
    assert any(f"wait_for_batch ({script}:" in frame for frame in frames.pop(child.pid))
    assert [pid for pid, seen in frames.items() if any(f"decode ({script}:" in frame for frame in seen)]
    assert {stack.role for stack in stacks} == {""}, "the role is for those to fill in who know the processes"
    assert spies() == []


WAITING = """
import os, socket, threading, time
lock, nothing, pair = threading.Lock(), os.pipe(), socket.socketpair()
lock.acquire()
def sleeping(): time.sleep(60)
def locked(): lock.acquire()
def reading(): os.read(nothing[0], 1)
def receiving(): pair[0].recv(1)
def burning():
    while True: sum(range(1000))
for work in (sleeping, locked, reading, receiving, burning):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
burning()  # a second one: each has the interpreter's lock half of the time
"""


@needs_py_spy
@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="py-spy cannot tell who sleeps in older interpreters")
def test_whatever_a_thread_is_blocked_in_it_is_not_awake(start: Start) -> None:
    """In the kernel or in C, Python's own lock included: who waits for that is on no core either."""
    child = start(WAITING)
    window, awake = window_of(child.pid, seconds=2), window_of(child.pid, seconds=2, kind="awake")
    stacks = finish(window)
    finish(awake)
    seen, running = Counter[str](), Counter[str]()
    for stack in compared(window.by_target, awake.by_target, {}):
        for name in {frame.partition(" ")[0] for frame in stack.frames}:
            seen[name] += stack.count
            running[name] += stack.running or 0
    assert stacks
    for name in ("sleeping", "locked", "reading", "receiving"):
        assert seen[name] >= 20
        assert running[name] <= 0.1 * seen[name], name
    assert running["burning"] >= 0.3 * seen["burning"], "of two, one has the interpreter's lock"


@needs_py_spy
def test_a_process_that_is_gone_is_a_gap(start: Start) -> None:
    child = start("print('ready', flush=True)")
    child.wait()
    window = window_of(child.pid)
    assert finish(window) == []
    assert "has ended" in window.gaps[0].why


def test_what_was_written_before_an_early_end_is_kept(pretend: Pretend, tmp_path: Path) -> None:
    written = str(tmp_path / "written")
    body = f"open(output, 'w').write('thread (1): T;f (a.py:1) 5')\nopen({written!r}, 'w')\ntime.sleep(60)"
    pretend(body)
    window = window_of(os.getpid(), seconds=5)
    assert len(spies()) == 1
    deadline_s = time.monotonic() + PATIENCE_S
    while not (tmp_path / "written").exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    window.close()
    assert taken(window) == [Stack(os.getpid(), "", "T", ["f (a.py:1)"], 5)]
    assert window.gaps == []
    assert spies() == []


@pytest.mark.parametrize("kind", ["missing", "no program", "no room"])
def test_a_py_spy_that_cannot_start_is_a_gap(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("python", "py-spy"):
        (tmp_path / name).write_bytes(b"\x00")
    (tmp_path / "py-spy").chmod(0o755 if kind == "no program" else 0o644)
    monkeypatch.setattr(pyspy.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    if kind == "no room":
        (tmp_path / "py-spy").chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", "/nowhere/at/all")
    window = window_of(os.getpid())
    assert finish(window) == []
    expected = {"missing": INSTALL, "no program": REPAIR, "no room": "set TMPDIR"}
    assert [gap.do for gap in window.gaps] == [expected[kind]]


MAIN = "<module> (/home/me/train.py:15);main (/home/me/train.py:13)"


@pytest.mark.parametrize(
    ("line", "stack"),
    [
        (f"thread (7): MainThread;{MAIN} 12", Stack(1, "", "MainThread", MAIN.split(";"), 12)),
        (
            f'process 5:"bash run.sh";process 7:"python train.py";thread (7): MainThread;{MAIN} 3',
            Stack(7, "", "MainThread", MAIN.split(";"), 3),
        ),
        (f"thread (7);{MAIN} 2", Stack(1, "", "7", MAIN.split(";"), 2)),
        ("f (a b.py:1);g (c.py:2) 2", Stack(1, "", "", ["f (a b.py:1)", "g (c.py:2)"], 2)),
    ],
)
def test_a_line_is_one_path_of_one_thread(line: str, stack: Stack) -> None:
    assert parse_folded(f"{line}\nno count\nthread (7): T 3\nf (a.py:1) -1\n", default_pid=1) == [stack]


NONE = "Error: No python processes found in process 7 or any of its subprocesses"


@pytest.mark.parametrize(
    ("files", "message", "why", "do"),
    [
        ({"proc/7/stat": "7 (python) Z 1\n"}, "Permission Denied", "ended before the window was over", ""),
        ({}, NONE, "py-spy does not know the Python of process 7", "pip install --upgrade py-spy"),
        ({}, "Error: the moon is full\n\nStack backtrace:", "the moon is full", ""),
        (
            {"proc/sys/kernel/yama/ptrace_scope": "2"}, NONE,
            "py-spy may not look into process 7: kernel.yama.ptrace_scope is 2",
            "sudo sysctl kernel.yama.ptrace_scope=1",
        ),
    ],
)  # fmt: skip
def test_the_reason_is_found_in_its_message_and_in_proc(
    files: dict[str, str], message: str, why: str, do: str, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bottleneck_doctor.sense.files.in_container", lambda root: False)
    gap = explain(7, message, plant({"proc/7/stat": "7 (python) S 1\n", "proc/7/mem": "", **files}))
    assert gap.why.endswith(why)
    assert gap.do == do


def test_further_looks_say_who_was_awake_and_who_in_python() -> None:
    asleep, awake = Stack(1, "", "T", ["f"], 9), Stack(1, "", "T", ["g"], 5)
    second = [Stack(1, "", "T", ["g"], 4), Stack(1, "", "T", ["h"], 2)]
    third = [Stack(1, "", "T", ["f"], 8)]
    known = compared({1: [asleep, awake]}, {1: second}, {1: third})
    assert [(one.frames[0], one.count, one.running, one.holding) for one in known] == [
        ("f", 9, 0, 8),
        ("g", 5, 4, 0),
        ("h", 0, 2, 0),
    ]


def test_a_second_look_that_failed_says_nothing_and_one_that_saw_nobody_says_that_all_slept() -> None:
    one, other = Stack(1, "", "T", ["f"], 9), Stack(3, "", "T", ["f"], 5)
    known = compared({1: [one], 2: [other]}, {2: []}, {})
    assert [(stack.pid, stack.running) for stack in known] == [(1, None), (3, 0)]


def test_two_windows_add_up_and_stay_bounded() -> None:
    first = [Stack(1, "", "T", ["f"], 9, 3, 1), Stack(1, "", "T", ["g"], 2)]
    later = [Stack(1, "", "T", ["f"], 1, 1, None), Stack(1, "", "T", ["h"], 5, 5, 5)]
    assert [(one.frames[0], one.count, one.running, one.holding) for one in add_up(first, later)] == [
        ("f", 10, 4, 1),
        ("h", 5, 5, 5),
        ("g", 2, None, None),
    ]
    kept = add_up([Stack(1, "", "T", [f"f{n}"], n) for n in range(5 * pyspy.MOST_PATHS)], [])
    assert len(kept) == 2 * pyspy.MOST_PATHS
    assert kept[0].count == 5 * pyspy.MOST_PATHS - 1
