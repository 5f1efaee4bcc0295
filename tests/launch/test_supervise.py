"""The supervisor waits for the training, passes signals on once, and sleeps until something happens."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise

import psutil
import pytest

from bottleneck_doctor.launch import signals
from bottleneck_doctor.launch.signals import HELD, arrivals, doorbell, held
from bottleneck_doctor.launch.start import Command
from bottleneck_doctor.launch.supervise import Ended, supervise

PATIENCE_S = 30


def run(*argv: str, tick=lambda pid: 1.0) -> Ended:
    return supervise(Command(argv, None), os.environ, tick)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_death_by_a_signal_is_128_and_its_number(number):
    ended = run("sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
    assert (ended.exit_status, ended.signal) == (128 + number, number)


def test_the_streams_are_the_very_same_files_and_no_others_come_along(stage):
    source = """
import json
print(json.dumps({number: os.stat(number).st_ino for number in map(int, os.listdir("/proc/self/fd"))
                  if os.path.exists(f"/proc/self/fd/{number}")}))
"""
    output = stage.folder / "out"
    with output.open("wb") as file, open(os.devnull, "rb") as empty:
        process = stage.start(sys.executable, stage.script(source), stdin=empty, stdout=file, stderr=file)
        assert process.wait(PATIENCE_S) == 0
        expected = {"0": os.fstat(empty.fileno()).st_ino, "1": os.fstat(file.fileno()).st_ino}
    found = json.loads(output.read_text())
    assert found == {**expected, "2": expected["1"]}


def test_a_training_that_writes_to_a_closed_pipe_dies_of_sigpipe_as_usual(stage):
    process = stage.start("sh", "-c", "while :; do echo step; done", stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_a_training_starts_with_the_signal_state_that_the_supervisor_started_with(stage):
    source = """
INTERNAL = 0b11 << 31  # glibc's own two; posix_spawn leaves them ignored until glibc needs them
for line in open("/proc/self/status"):
    if line.startswith(("SigBlk", "SigIgn", "SigCgt")):
        name, mask = line.split()
        print(name, hex(int(mask, 16) & ~INTERNAL))
"""
    argv = [sys.executable, stage.script(source)]

    def odd_state() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    plain = subprocess.run(argv, preexec_fn=odd_state, capture_output=True, check=True)
    process = stage.start(*argv, preexec_fn=odd_state, stdout=subprocess.PIPE)
    assert process.communicate(timeout=PATIENCE_S)[0] == plain.stdout


def test_a_supervisor_that_was_told_to_ignore_its_children_still_learns_the_status(stage):
    def ignore_children() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    process = stage.start("sh", "-c", "exit 7", preexec_fn=ignore_children)
    assert process.wait(PATIENCE_S) == 7


def test_processes_that_outlive_the_training_are_left_alone(stage):
    source = """
if os.fork() == 0:
    await_mark("supervisor-is-gone")
    mark("survived")
"""
    process = stage.start(sys.executable, stage.script(source))
    assert process.wait(PATIENCE_S) == 0
    (stage.folder / "supervisor-is-gone").touch()
    stage.await_mark("survived")


def test_a_supervisor_killed_with_sigkill_does_not_take_the_training_along(stage):
    source = """
mark("ready")
await_mark("supervisor-is-gone")
print("still writing", flush=True)
mark("finished")
"""
    process = stage.start_script(source, stdout=subprocess.PIPE)
    process.kill()
    process.wait(PATIENCE_S)
    (stage.folder / "supervisor-is-gone").touch()
    stage.await_mark("finished")
    assert process.stdout.read() == b"still writing\n"  # to the end: nobody of ours holds the pipe open


def test_the_tick_is_called_as_often_as_it_asks_and_never_spins():
    calls: list[int] = []

    def tick(pid: int) -> float:
        calls.append(time.monotonic_ns())
        return -1.0

    ended = run("sh", "-c", "sleep 0.2", tick=tick)
    assert len(calls) > 2
    assert min(b - a for a, b in pairwise(calls)) >= 5_000_000
    assert ended.exit_status == 0


@pytest.mark.parametrize("answer", [float("inf"), float("nan"), 1e9])
def test_whatever_the_tick_answers_the_end_is_noticed_at_once(answer):
    assert run("true", tick=lambda pid: answer).exit_status == 0


@pytest.mark.parametrize("error", [ValueError("bad sensor"), SystemExit(9), KeyboardInterrupt()])
def test_a_tick_that_raises_is_noted_and_never_called_again(error):
    calls = []

    def tick(pid: int) -> float:
        calls.append(1)
        raise error

    ended = run("sh", "-c", "sleep 0.1; exit 4", tick=tick)  # time for more than one call
    assert (ended.exit_status, len(calls)) == (4, 1)
    assert ended.notes == (f"watching stopped early: {type(error).__name__}: {error}",)


def test_nothing_is_left_running_or_open_and_signals_are_handled_as_before():
    def state() -> list[object]:
        return [signal.pthread_sigmask(signal.SIG_BLOCK, []), *map(signal.getsignal, signal.valid_signals())]

    before = state()
    open_before, children_before = {*os.listdir("/proc/self/fd")}, {*psutil.Process().children()}
    run("true")  # what other tests left may end by now
    assert state() == before
    assert {*os.listdir("/proc/self/fd")} <= open_before
    assert {*psutil.Process().children()} <= children_before  # a zombie is one, too


LONG_S = 60.0


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def ring() -> None:
    """A signal for the thread that sleeps: one for the process may go to a thread that other tests left."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)


def until(sleep, ready) -> int:
    """Sleep, as long as allowed each time, until something is so; how often that took."""
    deadline = time.monotonic() + LONG_S / 2
    for times in range(10_000):
        if ready():
            return times
        assert time.monotonic() < deadline
        sleep(LONG_S)
    raise AssertionError("woken all the time for nothing")


@pytest.mark.parametrize("bells", [True, False])
def test_a_held_signal_is_noticed_and_left_for_others_to_take_and_so_is_the_end(child, monkeypatch, bells):
    if not bells:
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
    with held() as taken, doorbell(child.pid, HELD) as sleep:
        ring()
        sleep(LONG_S)
        assert [arrival.number for arrival in arrivals(taken)] == [signal.SIGUSR1]
    with doorbell(child.pid, HELD) as sleep:
        child.stdin.close()
        until(sleep, lambda: child.poll() is not None)


def test_the_witness_goes_with_its_lifeline_and_without_cat_there_is_none(monkeypatch, tmp_path):
    made = signals.station()
    os.close(made.lifeline)
    assert os.waitpid(made.pid, 0)[1] == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    assert (signals.station(), os.listdir("/proc/self/fd")) == (None, before)
