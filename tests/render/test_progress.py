"""The line that stays on the terminal while the training runs."""

from __future__ import annotations

import pytest

from bottleneck_doctor.render.progress import progress_line


@pytest.mark.parametrize(
    ("steps", "step_s", "wait", "elapsed", "width", "line"),
    [
        (402, 0.0241, 0.62, 38.0, 80, "bdoc · 402 steps · 24.1 ms each · 62 % waiting for data · 38 s"),
        (402, 0.0241, 0.62, 38.0, 62, "402 steps · 24.1 ms each · 62 % waiting for data · 38 s"),
        (402, 0.0241, 0.62, 38.0, 50, "402 steps · 24.1 ms each · 62 % waiting for data"),
        (402, 0.0241, 0.62, 38.0, 30, "402 steps · 24.1 ms each"),
        (402, 0.0241, 0.62, 38.0, 12, "402 steps"),
        (402, 0.0241, 0.62, 38.0, 5, "402 "),
        (402, 0.0241, 0.62, 38.0, 0, ""),
        (1, None, None, 0.5, 80, "bdoc · 1 step · 500 ms"),
        (0, None, None, 3.0, 80, "bdoc · waiting for the first step · 3 s"),
        (9000, 2.0, 0.0, 18e3, 80, "bdoc · 9 000 steps · 2 s each · 0 % waiting for data · 5 h 00 min"),
    ],
)  # fmt: skip
def test_what_matters_least_goes_first_on_a_narrow_terminal(
    steps: int, step_s: float | None, wait: float | None, elapsed: float, width: int, line: str
) -> None:
    assert progress_line(steps, step_s, wait, elapsed, width) == line


@pytest.mark.parametrize("width", range(90))
def test_the_line_never_wraps(width: int) -> None:
    assert len(progress_line(402, 0.0241, 0.62, 38.0, width)) <= max(0, width - 1)


def test_the_line_can_be_said_in_ascii() -> None:
    assert (
        progress_line(3, 7e-5, 0.1, 3.0, 80, "ascii")
        == "bdoc | 3 steps | 70 us each | 10 % waiting for data | 3 s"
    )
