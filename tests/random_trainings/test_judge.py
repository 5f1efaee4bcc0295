"""The judge and the reader of clocks, on made-up rows."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patients.patient import ids
from tests.random_trainings.__main__ import line, seeds
from tests.random_trainings.clock import truth
from tests.random_trainings.judge import Row, answer, row, totals
from tests.random_trainings.parts import Part

SLEEP = Part("input", ids("latency"), ids("input.wait"))
MODEL = Part("model", ids("cpu"), ids("model.compute", "host.launch"))
SAVING = Part("checkpoint", ids("io", "cpu"), ids("host.checkpoint"))
PARTS = [SLEEP, MODEL, SAVING]


def said(bound: str, cause: str, confidence: str = "high", wait: float | None = 0.5) -> dict[str, Any]:
    return {
        "verdict": {"bound": bound, "cause": cause, "confidence": confidence},
        "metrics": {"data_wait_fraction": {"value": wait}},
        "remedies": [{"id": "workers-auto"}],
        "ledger": [
            {"part": "training steps", "share": 0.97, "s": 9.7},
            {"part": "unexplained", "share": 0.03, "s": 0.3},
        ],
    }


def judged(report: dict[str, Any] | None, gains: dict[str, float], wait_truth: float | None = 0.51) -> Row:
    return row(
        7,
        "sleep",
        PARTS,
        gains,
        report,
        wait_truth=wait_truth,
        wall_s=9.0,
        same_status=True,
        same_output=True,
    )


def test_the_part_that_gains_most_is_the_truth() -> None:
    found = answer(PARTS, {"input": 3.0, "model": 1.4, "checkpoint": 1.0})
    assert (found.best, found.gain) == ("input", 3.0)
    assert (found.bounds, found.causes) == ({"latency"}, {"input.wait"})


def test_a_part_within_a_tenth_of_the_best_is_right_too() -> None:
    assert answer(PARTS, {"input": 2.0, "model": 1.81, "checkpoint": 1.0}).causes >= {
        "input.wait",
        "model.compute",
    }
    assert answer(PARTS, {"input": 2.0, "model": 1.79, "checkpoint": 1.0}).causes == {"input.wait"}


def test_nothing_that_gains_five_percent_is_balanced() -> None:
    found = answer(PARTS, {"input": 1.04, "model": 1.0, "checkpoint": 0.99})
    assert (found.best, found.bounds, found.causes) == ("none", {"balanced"}, {"none"})


def test_a_gain_of_hardly_more_may_be_called_balanced_and_a_larger_one_may_not() -> None:
    assert "balanced" in answer(PARTS, {"input": 1.08, "model": 1.0, "checkpoint": 1.0}).bounds
    assert "balanced" not in answer(PARTS, {"input": 1.2, "model": 1.0, "checkpoint": 1.0}).bounds


def test_what_gains_less_than_five_percent_is_never_right() -> None:
    assert answer(PARTS, {"input": 1.08, "model": 1.04, "checkpoint": 1.0}).causes == {"input.wait", "none"}


def test_a_row_tells_right_from_wrong() -> None:
    gains = {"input": 3.0, "model": 1.4, "checkpoint": 1.0}
    right, wrong = judged(said("latency", "input.wait"), gains), judged(said("cpu", "model.compute"), gains)
    assert (right.bound_right, right.cause_right, right.remedy) == (True, True, "workers-auto")
    assert (wrong.bound_right, wrong.cause_right) == (False, False)
    assert right.unexplained == 0.03
    assert "true: input.wait" in line(wrong)
    assert "true:" not in line(right)


@pytest.mark.parametrize(
    ("wait", "true", "right"),
    [
        (0.5, 0.51, True),
        (0.5, 0.53, False),
        (None, 0.3, False),
        (None, 0.0, None),
        (0.5, 0.0, False),
        (0.5, None, None),
    ],
)
def test_the_data_wait_is_held_against_the_stopwatch(
    wait: float | None, true: float | None, right: bool | None
) -> None:
    assert (
        judged(
            said("cpu", "none", wait=wait), {"input": 2.0, "model": 1.0, "checkpoint": 1.0}, true
        ).wait_right
        is right
    )


def test_no_report_is_a_wrong_one() -> None:
    found = judged(None, {"input": 3.0, "model": 1.4, "checkpoint": 1.0})
    assert (found.bound, found.bound_right, found.cause_right, found.wait_right) == (
        "no report",
        False,
        False,
        False,
    )
    assert line(found)


def test_totals_count_what_is_judged_and_who_was_sure() -> None:
    gains = {"input": 3.0, "model": 1.4, "checkpoint": 1.0}
    rows = [
        judged(said("latency", "input.wait"), gains),
        judged(said("cpu", "model.compute"), gains, 0.9),
        judged(said("cpu", "model.compute", "low"), gains, None),
    ]
    found = totals(rows)
    assert found["bound"] == (1, 3)
    assert found["data wait within 2 points"] == (1, 2)
    assert found["wrong with more than low confidence"] == (1, 2)


def marks(steps: int) -> list[tuple[str, float]]:
    """Each step asks for 3 s and computes for 1 s; after the twelfth come 5 s of evaluation."""
    made, now = [("start", 0.0)], 0.0
    for step in range(steps):
        made += [("ask", now), ("got", now + 3)]
        now += 4
        if step == 12:
            made += [("eval", now), ("/eval", now + 5)]
            now += 5
    return [*made, ("ask", now), ("over", now + 2), ("end", now + 2)]


def test_the_clock_leaves_warm_up_and_evaluation_out() -> None:
    found = truth(marks(40))
    assert (found.steps, found.wall_s, found.evaluation_s) == (40, 167.0, 5.0)
    assert found.wait_fraction == pytest.approx(0.75)
    assert found.step_median_s == 4.0


def test_the_clock_of_a_loop_that_fetches_nothing() -> None:
    ticks = [("start", 0.0), *(("got", float(n)) for n in range(20)), ("end", 20.0)]
    assert truth(ticks).wait_fraction == 0.0
    assert truth([("start", 0.0), ("got", 1.0), ("end", 2.0)]).wait_fraction is None


def test_seeds_are_read_as_people_write_them() -> None:
    assert seeds("1-3,9") == [1, 2, 3, 9]
