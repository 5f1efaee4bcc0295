"""The line that stays on the terminal while remedies are tried, and the lines of a log."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from bottleneck_doctor.model.proof import Attempt, Gain
from bottleneck_doctor.render.progress import attempt_line, proving_line

KNOWN = [("workers-auto", Gain(1.95, 1.88, 2.02, 2)), ("gc-freeze", Gain(1.01, 0.99, 1.03, 2))]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            100,
            "bdoc ████████░░░░░░░░░░░░ 100 s left · without a remedy · workers-auto ×1.95 · gc-freeze ×1.01",
        ),
        (80, "bdoc ██░░░ 100 s left · without a remedy · workers-auto ×1.95 · gc-freeze ×1.01"),
        (62, "bdoc ██░░░ 100 s left · without a remedy · workers-auto ×1.95"),
        (41, "bdoc ██░░░ 100 s left · without a remedy"),
        (40, "bdoc ████████░░░░░░░░░░░░ 100 s left"),
        (11, "100 s left"),
    ],
)
def test_what_matters_least_goes_first_on_a_narrow_terminal(width: int, line: str) -> None:
    assert proving_line("baseline", 0.4, 100.3, KNOWN, width) == line


@pytest.mark.parametrize("width", range(100))
def test_the_line_never_wraps(width: int) -> None:
    assert cell_len(proving_line("漢字" * 9, 1.7, 4e5, KNOWN, width)) <= max(0, width - 1)


def test_the_line_can_be_said_in_ascii() -> None:
    line = proving_line("cached-batches", 0.5, None, [], 80, "ascii")
    assert line == "bdoc ##########.......... with batches from memory"


@pytest.mark.parametrize(
    ("attempt", "line"),
    [
        (
            Attempt("baseline", "measured", step_s=0.0217, steps=120, run_s=9.3),
            "without a remedy: 21.7 ms a step over 120 steps (run of 9.3 s)",
        ),
        (
            Attempt("baseline", "measured", step_s=0.0791, steps=120, run_s=9.3, fair_s=0.0225),
            "without a remedy: 79.1 ms a step over 120 steps, 22.5 ms without waiting for other programs "
            "(run of 9.3 s)",
        ),
        (
            Attempt("gc-freeze", "hung", "no step in 30 s", run_s=30.2),
            "gc-freeze: hung: no step in 30 s (run of 30.2 s)",
        ),
        (Attempt("a\x1b[2J", "out-of-memory"), "a\\x1b[2J: out of memory (run of 0 s)"),
    ],
)
def test_a_finished_run_is_one_line_of_a_log(attempt: Attempt, line: str) -> None:
    assert attempt_line(attempt) == line
