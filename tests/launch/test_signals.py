"""Signals reach the training exactly once, however they were sent, and never end the supervisor before it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE_S = 30

COUNTING = "count(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)\n"
COUNTER = COUNTING + "leave_on(signal.SIGUSR2)\nwait_for_ever()\n"


def fence(stage, process) -> dict[str, int]:
    """End the training by one more signal, which cannot overtake earlier ones; what it had counted."""
    process.send_signal(signal.SIGUSR2)
    assert process.wait(PATIENCE_S) == 0
    words = stage.await_mark("counts").strip("{}")
    return {number: int(times) for number, times in (pair.split(": ") for pair in words.split(", ") if pair)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_supervisor_reaches_the_training_exactly_once(stage, number):
    process = stage.start_script(COUNTER)
    process.send_signal(number)
    stage.await_mark(f"count-{int(number)}")
    assert fence(stage, process) == {str(int(number)): 1}


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_a_signal_that_queues_instead_of_merging_comes_once_too(stage, send):
    """Two SIGTERMs in quick succession look like one; real-time signals do not hide a second delivery."""
    source = """
wanted = [signal.SIGRTMIN, signal.SIGUSR2]
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
mark("ready")
while (number := signal.sigwait(wanted)) != signal.SIGUSR2:
    counts[int(number)] += 1
    mark("count", counts)
while signal.sigtimedwait([signal.SIGRTMIN], 0):
    counts[int(signal.SIGRTMIN)] += 1
mark("counts", dict(counts))
"""
    process = stage.start_script(source)
    send(process.pid, signal.SIGRTMIN)
    stage.await_mark("count")
    await_taken(process.pid, signal.SIGRTMIN)
    assert fence(stage, process) == {str(int(signal.SIGRTMIN)): 1}


def await_taken(pid: int, number: int) -> None:
    """Wait until no signal of that number waits for the process."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if not (int(status["ShdPnd"], 16) >> (number - 1)) & 1:
            return
        time.sleep(0.01)


def test_a_second_interrupt_is_passed_on_too(stage):
    source = """
try:
    wait_for_ever()
except KeyboardInterrupt:
    mark("saving")
    try:
        await_mark("never")
    except KeyboardInterrupt:
        sys.exit(5)
"""
    process = stage.start_script(source)
    process.send_signal(signal.SIGINT)
    stage.await_mark("saving")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 5


def test_loader_workers_do_not_get_what_was_sent_to_the_supervisor_alone(stage):
    source = """
if os.fork() == 0:
    signal.signal(signal.SIGTERM, lambda *_: mark("worker-was-hit"))
    mark("worker")
    await_mark("over")
    mark("worker-over")
    os._exit(0)
await_mark("worker")
leave_on(signal.SIGTERM)
wait_for_ever()
"""
    process = stage.start_script(source)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    (stage.folder / "over").touch()
    stage.await_mark("worker-over")
    assert not (stage.folder / "worker-was-hit").exists()


def test_a_signal_that_the_training_sends_to_its_parent_does_not_come_back(stage):
    source = COUNTING + "leave_on(signal.SIGUSR2)\nos.kill(os.getppid(), signal.SIGUSR1)\nwait_for_ever()\n"
    assert fence(stage, stage.start_script(source)) == {}


def test_under_nohup_both_survive_a_hangup(stage):
    source = """
assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
leave_on(signal.SIGUSR2)
wait_for_ever()
"""
    argv = ["nohup", *stage.line(sys.executable, stage.script(source))]
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = stage.popen(argv, start_new_session=True, **quiet)
    stage.await_mark("ready")
    process.send_signal(signal.SIGHUP)
    os.killpg(process.pid, signal.SIGHUP)
    assert fence(stage, process) == {}


def test_a_signal_caught_by_another_thread_of_the_supervisor_is_passed_on(stage):
    """A library's thread that was there before us has nothing blocked, and the kernel prefers it."""
    train = stage.script(COUNTER)
    source = f"""
import sys, threading
sys.path.insert(0, {os.getcwd()!r})
sys.argv[1:1] = [{str(stage.report)!r}]
threading.Thread(target=threading.Event().wait, daemon=True).start()
sys.path.insert(0, {os.path.dirname(__file__)!r})
import stand_in, os
os._exit(stand_in.main(sys.argv[1], sys.argv[2:]))
"""
    process = stage.popen([sys.executable, "-c", source, sys.executable, train], start_new_session=True)
    stage.await_mark("ready")
    process.send_signal(signal.SIGTERM)
    stage.await_mark(f"count-{int(signal.SIGTERM)}")
    assert fence(stage, process) == {str(int(signal.SIGTERM)): 1}


def test_an_alarm_that_was_set_before_the_start_goes_off_in_the_training(stage):
    """`perl -e 'alarm 60; exec @ARGV' python train.py` is a common time-out: alarms survive exec."""

    def set_alarm() -> None:
        signal.setitimer(signal.ITIMER_REAL, 3.0)  # the supervisor has begun by then

    process = stage.start("sleep", "60", preexec_fn=set_alarm)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGALRM


def test_a_supervisor_that_was_stopped_for_a_while_makes_up_no_signals(stage):
    process = stage.start_script(COUNTER)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    time.sleep(0.2)  # longer than the supervisor meant to
    process.send_signal(signal.SIGCONT)
    assert fence(stage, process) == {}
