"""A training hangs when no batch comes for as long as its limits say, first, between or last."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bottleneck_doctor.agent import wire
from bottleneck_doctor.prove.endings import HangDetector
from bottleneck_doctor.prove.limits import Limits

S = 1_000_000_000
ALIVE, PARENT, DEAD = os.getpid(), os.getppid(), 4_194_304
LIMITS = Limits(steps=40, seconds=500.0, first_batch_s=30.0, silence_s=20.0)


@pytest.fixture
def trial(tmp_path: Path) -> HangDetector:
    return HangDetector(tmp_path, LIMITS, started_ns=100 * S)


def post(trial: HangDetector, pid: int, trained: int, last_s: float) -> None:
    """What an agent's header says."""
    folder = trial.place / ".bdoc-run-x"
    folder.mkdir(exist_ok=True)
    header = bytearray(wire.HEADER_BYTES)
    wire.IDENTITY.pack_into(header, 0, wire.MAGIC, wire.VERSION, wire.ROW.size, pid, 1, 1)
    words = {wire.STEPS: trained + 1, wire.TRAINED: trained, wire.FIRST: 110 * S, wire.LAST: int(last_s * S)}
    for word, value in words.items():
        wire.WORD.pack_into(header, word, value)
    with (folder / f"{pid}-1.rows").open("r+b" if (folder / f"{pid}-1.rows").exists() else "wb") as file:
        file.write(header)


def test_a_first_batch_is_waited_for_and_then_no_longer(trial: HangDetector) -> None:
    assert trial.look(129 * S) == ""
    assert trial.look(131 * S) == "no first batch within 30 s"


def test_whatever_moves_does_not_hang(trial: HangDetector) -> None:
    post(trial, ALIVE, 5, 115.0)
    assert trial.look(134 * S) == ""
    post(trial, ALIVE, 6, 134.5)
    assert trial.look(154 * S) == ""
    assert trial.trained == 6


def test_one_of_several_processes_that_moves_is_enough(trial: HangDetector) -> None:
    post(trial, ALIVE, 30, 115.0)
    post(trial, PARENT, 15, 140.0)
    assert trial.look(150 * S) == ""


def test_silence_between_steps_and_after_the_last_are_told_apart(trial: HangDetector) -> None:
    post(trial, ALIVE, 30, 115.0)
    assert trial.look(136 * S) == "no batch for 20 s, after 30 steps"
    post(trial, ALIVE, 40, 116.0)
    assert trial.look(137 * S) == "it did not end within 20 s of its last step"


def test_a_training_that_is_over_does_not_hang_whatever_bdoc_still_writes(trial: HangDetector) -> None:
    post(trial, DEAD, 40, 115.0)
    assert trial.look(500 * S) == ""
    assert trial.is_over


def test_the_first_steps_may_take_as_long_as_a_start(trial: HangDetector) -> None:
    post(trial, ALIVE, 2, 115.0)
    assert trial.look(144 * S) == ""
    assert trial.look(146 * S) == "no batch for 30 s, after 2 steps"
