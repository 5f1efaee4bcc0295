"""What the gate says, line by line."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.outcome import Condition, Judgement, Outcome, Regression
from bottleneck_doctor.render.outcome import outcome_lines

WAITS = "fails when > 0.2 (--max-data-wait)"
SLOWER = "fails when slower than the baseline by more than 5 %"
WAIT = Condition("data_wait_fraction", ">", 0.2, "--max-data-wait")


@pytest.mark.parametrize(
    ("judgement", "line"),
    [
        (
            Judgement(WAIT, 1, 0.62134, 0.601, 0.6402, 402),
            f"FAIL data_wait_fraction = 0.6213 (90 % interval 0.601–0.6402, n = 402); {WAITS}",
        ),
        (
            Judgement(WAIT, 0, 0.19, 0.17, 0.21, 402, close=True),
            f"ok   data_wait_fraction = 0.19 (90 % interval 0.17–0.21, n = 402); {WAITS}"
            "; close: the interval crosses the threshold",
        ),
        (
            Judgement(WAIT, 1, 0.2000004),
            f"FAIL data_wait_fraction = 0.2000004; {WAITS}",
        ),
        (
            Judgement(WAIT, 3, None, why="data_wait_fraction was not measured"),
            f"?    cannot say: data_wait_fraction was not measured; {WAITS} [cannot-say]",
        ),
        (
            Judgement(WAIT, 3, None, why="\x1b[31m"),
            f"?    cannot say: data_wait_fraction: \\x1b[31m; {WAITS} [cannot-say]",
        ),
    ],
)  # fmt: skip
def test_a_threshold_is_one_line_with_the_numbers_behind_it(judgement: Judgement, line: str) -> None:
    assert outcome_lines(Outcome(judgement.status, [judgement])) == [line]


@pytest.mark.parametrize(
    ("regression", "line"),
    [
        (
            Regression(1, 0.05, 0.1, 0.11, 0.1, 0.08, 0.12),
            f"FAIL step time 100 ms → 110 ms, +10 % (+8 % to +12 %); {SLOWER}",
        ),
        (
            Regression(0, 0.05, 0.1, 0.11, 0.1, -0.02, 0.22),
            f"ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); {SLOWER}"
            "; within the noise",
        ),
        (
            Regression(3, 0.05, None, 0.11, why="step_time_s was not measured in the baseline"),
            f"?    cannot say: step_time_s was not measured in the baseline; {SLOWER} [cannot-say]",
        ),
    ],
)  # fmt: skip
def test_a_baseline_is_the_last_line(regression: Regression, line: str) -> None:
    assert outcome_lines(Outcome(regression.status, [], regression)) == [line]
