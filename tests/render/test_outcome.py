"""What the gate says, line by line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.model.gate import Checked, Condition, Difference, Gate, Judgement, Outcome, Regression
from bottleneck_doctor.render.gate import gate_lines, outcome_lines
from tests.render.reports import TYPICAL

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


RUNS = "5 runs against 5; unchanged runs differ by 2 %"
MOVED = Regression(
    1, 0.05, 5, 5, base_s=0.1, new_s=0.11, change=0.1, low=0.08, high=0.12, noise=0.02, sees=0.08, wanted=0.1
)
NOISY = replace(MOVED, status=0, low=-0.02, high=0.22)
ONE = replace(NOISY, base_runs=1, new_runs=1, assumed=True, noise=0.03, sees=0.21)
TORCH = Difference("torch", "2.13", "2.14", refuses=True)


@pytest.mark.parametrize(
    ("regression", "line"),
    [
        (MOVED, f"FAIL step time 100 ms → 110 ms, +10 % (+8 % to +12 %); {RUNS}; {SLOWER}"),
        (
            replace(MOVED, what="sample"),
            f"FAIL time per sample 100 ms → 110 ms, +10 % (+8 % to +12 %); {RUNS}; {SLOWER}",
        ),
        (
            replace(MOVED, base_contended=0.004, new_contended=0.31),
            f"FAIL step time 100 ms → 110 ms, +10 % (+8 % to +12 %); {RUNS}; other programs on the machine"
            f" cost 0.4 % and 31 % of it, not counted; {SLOWER}",
        ),
        (
            NOISY,
            f"ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); {RUNS}; {SLOWER}; within the noise",
        ),
        (
            replace(ONE, repeats=6),
            "ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); 1 run against 1; unchanged runs are"
            f" taken to differ by 3 %; {SLOWER}; within the noise; minimum detectable regression:"
            " 21 % (6 runs per side would detect 10 %)",
        ),
        (
            replace(NOISY, sees=0.4),
            f"ok   step time 100 ms → 110 ms, +10 % (-2 % to +22 %); {RUNS}; {SLOWER}; within the noise;"
            " minimum detectable regression: 40 % (the runs differ too much to detect 10 %)",
        ),
        (
            Regression(3, 0.05, 1, 1, why="step_time_s was not measured in base.json"),
            f"?    cannot say: step_time_s was not measured in base.json; {SLOWER} [cannot-say]",
        ),
        (
            Regression(3, 0.05, 1, 1, why="not comparable", refused=True, differences=[TORCH]),
            "?    cannot say: not comparable; different torch: 2.13 and 2.14; --allow-different torch"
            f" overlooks that; {SLOWER} [not-comparable]",
        ),
    ],
)  # fmt: skip
def test_a_baseline_is_the_last_line(regression: Regression, line: str) -> None:
    gate = Gate(regression.status, [Checked("a.json", TYPICAL, Outcome(0))], regression)
    assert gate_lines(gate) == [line]


def test_what_else_differs_stands_below_the_comparison() -> None:
    told = replace(MOVED, differences=[TORCH, Difference("workers", 2, 4)])
    assert gate_lines(Gate(1, [], told))[1:] == [
        "     careful: different torch: 2.13 and 2.14",
        "     careful: different workers: 2 and 4",
    ]


def test_of_several_profiles_each_line_names_its_own() -> None:
    judgement = Judgement(WAIT, 0, 0.1)
    checked = [Checked(name, TYPICAL, Outcome(0, [judgement])) for name in ("a.json", "b\x1b.json")]
    lines = gate_lines(Gate(0, checked))
    assert [line.split(" ")[0] for line in lines] == ["a.json:", "b\\x1b.json:"]
