"""The witness sees what was sent to the group, misses what was sent to us, and leaves no trace."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from bottleneck_doctor.launch import signals

pytestmark = pytest.mark.alone  # a signal is to reach this process: of several threads another may take it


@pytest.fixture
def bystander() -> Iterator[signals.Witness]:
    """A witness; tests signal it alone, as the group that it is in is the test runner's."""
    made = signals.station()
    assert made is not None
    yield made
    signals.dismiss(made)


def test_a_signal_is_seen_at_once_and_others_are_not(bystander):
    assert signals.saw(bystander, signal.SIGTERM) is False
    os.kill(bystander.pid, signal.SIGTERM)
    assert signals.saw(bystander, signal.SIGTERM) is True
    assert signals.saw(bystander, signal.SIGINT) is False


def test_a_relieved_witness_has_seen_nothing():
    first = signals.station()
    os.kill(first.pid, signal.SIGINT)
    second = signals.relieve(first)
    assert signals.saw(second, signal.SIGINT) is False
    assert not os.path.exists(f"/proc/{first.pid}")
    signals.dismiss(second)


def test_a_stopped_witness_still_tells_and_still_goes():
    other = signals.station()
    os.kill(other.pid, signal.SIGSTOP)
    os.waitpid(other.pid, os.WUNTRACED)
    os.kill(other.pid, signal.SIGHUP)
    assert signals.saw(other, signal.SIGHUP) is True
    signals.dismiss(other)
    assert not os.path.exists(f"/proc/{other.pid}")


def test_without_a_witness_nobody_can_tell():
    assert signals.saw(None, signal.SIGTERM) is None


def test_a_machine_without_cat_has_no_witness_and_nothing_stays_open(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    assert signals.station() is None
    assert os.listdir("/proc/self/fd") == before


def test_the_witness_goes_when_the_lifeline_is_cut():
    made = signals.station()
    os.close(made.lifeline)
    assert os.waitpid(made.pid, 0)[1] == 0
