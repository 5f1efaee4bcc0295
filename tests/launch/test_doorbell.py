"""Sleeping until something happens: a signal, the child's end, or the time that was asked for."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from bottleneck_doctor.launch.signals import HELD, arrivals, doorbell, held

pytestmark = pytest.mark.alone  # a signal is to reach this process: of several threads another may take it

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


def no_bells(monkeypatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())


@pytest.mark.parametrize("bells", [True, False])
def test_the_end_of_the_child_is_noticed(child, monkeypatch, bells):
    if not bells:
        no_bells(monkeypatch)
    with doorbell(child.pid, HELD) as sleep:
        child.stdin.close()
        until(sleep, lambda: child.poll() is not None)


@pytest.mark.parametrize("bells", [True, False])
def test_a_held_signal_is_noticed_and_left_for_others_to_take(child, monkeypatch, bells):
    if not bells:
        no_bells(monkeypatch)
    with held() as taken, doorbell(child.pid, HELD) as sleep:
        ring()
        sleep(LONG_S)
        assert [arrival.number for arrival in arrivals(taken)] == [signal.SIGUSR1]


def test_with_bells_a_signal_cuts_the_sleep_short(child, monkeypatch):
    monkeypatch.setattr("bottleneck_doctor.launch.signals._LOOK_UP_S", LONG_S)
    with held() as taken, doorbell(child.pid, HELD) as sleep:
        before = time.monotonic()
        ring()
        sleep(LONG_S)
        assert time.monotonic() - before < LONG_S
        assert arrivals(taken)


def test_nothing_stays_open(child):
    before = os.listdir("/proc/self/fd")
    with doorbell(child.pid, HELD) as sleep:
        sleep(0.0)
    assert os.listdir("/proc/self/fd") == before
