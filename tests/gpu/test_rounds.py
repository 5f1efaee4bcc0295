"""A patient that fails costs one row; when the time is up, the rest is named and left out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.measure import Failed, NotHere, Ward
from tests.gpu.rounds import ITEMS, Rounds, go
from tests.gpu.sheet import Sheet


@pytest.fixture
def rounds(tmp_path: Path) -> Rounds:
    return Rounds(Ward(tmp_path), Sheet("box"), lambda text: None)


def ends(error: Exception) -> Callable[[Rounds], None]:
    def item(rounds: Rounds) -> None:
        raise error

    return item


def says(line: str) -> Callable[[Rounds], None]:
    return lambda rounds: rounds.found.say(line, harmless=True)


def test_failures_and_what_cannot_be_here_are_rows(rounds: Rounds) -> None:
    failing = [("a", ends(Failed("CUDA out of memory"))), ("b", ends(NotHere("no triton")))]
    go(rounds, [*failing, ("c", says("done"))], budget_s=1e9)
    assert rounds.found.rows[0].startswith("| a | failed: Failed: CUDA out of memory |")
    assert rounds.found.rows[1].startswith("| b | not here: no triton |")
    assert (rounds.found.failed, rounds.found.lines) == (["a"], ["done"])


def test_nothing_is_begun_that_would_end_too_late(rounds: Rounds, monkeypatch: pytest.MonkeyPatch) -> None:
    # Instants: the beginning; then before and after each item that is begun, once before one that is not.
    instants = iter([0.0, 0.0, 40.0, 40.0, 70.0, 70.0])
    monkeypatch.setattr("tests.gpu.rounds.time.monotonic", lambda: next(instants))
    go(rounds, [("long", says("1")), ("short", says("2")), ("third", says("3"))], budget_s=100.0)
    assert rounds.found.lines == ["1", "2"]
    assert rounds.found.left_out == ["third"]


def test_harm_is_looked_for_first_and_all_three_steps_are_timed() -> None:
    names = [name for name, _ in ITEMS]
    assert names[0] == "waits"
    assert names[-3:] == ["cost-5ms", "cost-1ms", "cost-20ms"]
    assert len(set(names)) == len(names)
