"""A patient that fails costs one row; when the time is up, the rest is named and left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.measure import NotHere, Ward
from tests.gpu.rounds import ITEMS, Rounds, go
from tests.gpu.sheet import Sheet, rows
from tests.lab.run import Failed


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds(Ward(tmp_path), Sheet("box"), lambda text: None)


def ends(error: Exception) -> Callable[[Rounds], None]:
    def item(rounds: Rounds) -> None:
        raise error

    return item


def says(line: str) -> Callable[[Rounds], None]:
    return lambda rounds: rounds.found.lines.update({line: line})


def test_failures_and_what_cannot_be_here_are_rows(rounds: Rounds) -> None:
    failing = [("a", ends(Failed("CUDA out of memory"))), ("b", ends(NotHere("no triton")))]
    go(rounds, [*failing, ("c", says("done"))], budget_s=1e9)
    first, second = rows(rounds.found)
    assert first.startswith("| a | failed: Failed: CUDA out of memory |")
    assert second.startswith("| b | not here: no triton |")
    assert list(rounds.found.lines) == ["done"]


def test_what_went_well_the_second_time_no_longer_failed(rounds: Rounds) -> None:
    go(rounds, [("a", ends(Failed("busy")))], budget_s=1e9)
    go(rounds, [("a", says("done"))], budget_s=1e9)
    assert (rounds.found.failed, list(rounds.found.lines)) == ({}, ["done"])


def test_nothing_is_begun_that_would_end_too_late(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    # Instants: the beginning; then before and after each item that is begun, once before one that is not.
    instants = iter([0.0, 0.0, 40.0, 40.0, 70.0, 70.0])
    monkeypatch.setattr("tests.gpu.rounds.time.monotonic", lambda: next(instants))
    go(rounds, [("long", says("1")), ("short", says("2")), ("third", says("3"))], budget_s=100.0)
    assert list(rounds.found.lines) == ["1", "2"]
    assert rounds.found.left_out == ["third"]


def test_ctrl_c_ends_the_rounds_and_keeps_what_was_found(rounds: Rounds) -> None:
    def interrupted(rounds: Rounds) -> None:
        raise KeyboardInterrupt

    go(rounds, [("a", says("kept")), ("b", interrupted), ("c", says("never"))], budget_s=1e9)
    assert (list(rounds.found.lines), rounds.found.left_out) == (["kept"], ["b", "c"])


def test_harm_is_looked_for_first_and_all_three_steps_are_timed() -> None:
    names = [name for name, _ in ITEMS]
    assert names[0] == "waits"
    assert names[-3:] == ["cost-5ms", "cost-1ms", "cost-20ms"]
    assert len(set(names)) == len(names)
