"""The truth that patients are held against is counted right."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.patients import ledger
from tests.patients.ledger import Ledger


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(ledger, "time", clock)
    return clock


def batches(clock: Clock, count: int, each_s: float) -> Iterator[int]:
    for number in range(count):
        clock.now_s += each_s
        yield number
    clock.now_s += 0.5  # what the end of an epoch costs


def train(book: Ledger, clock: Clock, epoch_steps: int, wait_s: float, step_s: float) -> None:
    for _ in book.epochs():
        for _ in book.loop(batches(clock, epoch_steps, wait_s)):
            clock.now_s += step_s


def test_wait_is_the_time_inside_next(clock: Clock) -> None:
    book = Ledger(steps=61)
    train(book, clock, epoch_steps=100, wait_s=0.03, step_s=0.01)
    truth = book.truth()
    assert truth["steps"] == 40
    assert truth["wall_s"] == pytest.approx(40 * 0.04)
    assert truth["wait_fraction"] == pytest.approx(0.75)


def test_the_end_of_an_epoch_is_waited_for_by_the_next_batch(clock: Clock) -> None:
    book = Ledger(steps=61)
    train(book, clock, epoch_steps=50, wait_s=0.03, step_s=0.01)
    assert book.truth()["wait_s"] == pytest.approx(40 * 0.03 + 0.5)


def test_an_evaluation_belongs_to_no_step(clock: Clock) -> None:
    book = Ledger(steps=61)
    for _ in book.epochs():
        for _ in book.loop(batches(clock, 40, 0.03)):
            clock.now_s += 0.01
        with book.aside():
            clock.now_s += 7.0
    truth = book.truth()
    assert truth["aside_s"] == pytest.approx(7.0)
    assert truth["wall_s"] == pytest.approx(40 * 0.04 + 0.5)


def test_the_loop_ends_after_the_steps_asked_for(clock: Clock) -> None:
    book = Ledger(steps=3)
    seen = [batch for _ in book.epochs() for batch in book.loop(batches(clock, 2, 0.1))]
    assert seen == [0, 1, 0]


def test_the_truth_is_written_when_the_epochs_end(clock: Clock, tmp_path: Path) -> None:
    book = Ledger(steps=30, truth=tmp_path / "truth.json")
    train(book, clock, epoch_steps=10, wait_s=0.03, step_s=0.01)
    assert json.loads((tmp_path / "truth.json").read_text()) == book.truth()


def test_the_truth_of_epochs_that_are_ended_is_written_too(clock: Clock, tmp_path: Path) -> None:
    def training() -> None:
        book = Ledger(steps=30, truth=tmp_path)
        for _ in book.epochs():
            for number in book.loop(batches(clock, 30, 0.03)):
                book.note(torch.tensor(number / 3))
                if number == 20:
                    raise SystemExit(0)

    with pytest.raises(SystemExit):
        training()
    truth = json.loads((tmp_path / f"{os.getpid()}.json").read_text())
    assert truth["first_losses"][1] == torch.tensor(1 / 3).item().hex()
    assert len(truth["first_losses"]) == 21
    assert truth["order"] is None
