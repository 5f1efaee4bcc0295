"""Slower than the baseline as a table: what fails, what the noise excuses, what nobody can say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.gate import DEFAULT_LIMIT, compare_runs
from bottleneck_doctor.model.gate import Difference, Regression, Repeat
from bottleneck_doctor.model.report import Metric, Overhead, Quality, Report, RunSummary, Verdict

RUN = RunSummary(
    ["t.py"], "t.py", "/", "2026-03-01T12:00:00Z", 9.0, 0, "box", "3.11.7", "2.13", {"cores": 2.0}
)
CPU = Verdict("cpu", "input.preprocess", "", "high")
UNSURE = replace(CPU, bound="inconclusive")


def timed(step_s: float | None, error: float | None = 0.002, batch: float | None = None) -> Report:
    ends = [None, None] if step_s is None or error is None else [step_s * (1 - error), step_s * (1 + error)]
    metrics = {"step_time_s": Metric(step_s, "s", *ends, 400)}
    if step_s and batch:
        metrics["steps_per_s"] = Metric(1 / step_s, "1/s")
        metrics["samples_per_s"] = Metric(batch / step_s, "1/s")
    return Report(RUN, Quality(400, 10, 0.1, Overhead(None, None, None)), metrics, [], CPU)


def side(*reports: Report) -> list[Repeat]:
    return [Repeat(f"{number}.json", report) for number, report in enumerate(reports)]


def held(base: list[Report], new: list[Report], limit: float = 0.03, *allowed: str) -> Regression:
    return compare_runs(side(*base), side(*new), limit, allowed)


FIVE = [timed(step) for step in (0.0990, 0.1010, 0.1000, 0.0995, 0.1005)]


def scaled(by: float) -> list[Report]:
    return [timed(report.metrics["step_time_s"].value * by) for report in FIVE]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("by", "limit", "status"),
    [(1.0, 0.0, 0), (1.0, 0.03, 0), (0.8, 0.03, 0), (1.1, 0.03, 1), (1.1, 0.09, 0), (3.0, 1.0, 1)],
)
def test_five_quiet_repeats_a_side_show_what_is_beyond_the_limit(
    by: float, limit: float, status: int
) -> None:
    regression = held(FIVE, scaled(by), limit)
    assert regression.status == status
    assert regression.change == pytest.approx(by - 1)
    assert regression.low is not None
    assert regression.high is not None
    assert regression.low < by - 1 < regression.high


def test_what_one_run_a_side_cannot_show_five_can() -> None:
    one = held(FIVE[:1], scaled(1.08)[:1], DEFAULT_LIMIT)
    assert (one.status, one.assumed) == (0, True)
    assert one.sees is not None
    assert one.sees > 0.1
    five = held(FIVE, scaled(1.08), DEFAULT_LIMIT)
    assert (five.status, five.assumed) == (1, False)


def test_one_run_a_side_still_shows_what_no_noise_explains() -> None:
    assert held(FIVE[:1], [timed(0.15)]).status == 1


def test_as_many_repeats_as_are_advised_would_see_what_is_wanted() -> None:
    one = held(FIVE[:1], FIVE[1:2])
    assert one.repeats is not None
    assert one.wanted == pytest.approx(0.10)
    told = held(FIVE[:1] * one.repeats, FIVE[1:2] * one.repeats)
    assert told.sees is not None
    assert told.sees <= 0.10


def test_runs_that_scatter_excuse_more_than_runs_that_agree() -> None:
    wild = [timed(step) for step in (0.08, 0.12, 0.1, 0.09, 0.11)]
    assert held(wild, scaled(1.10)).status == 0
    assert held(wild, scaled(1.10)).repeats is None


def test_steps_that_tremble_within_the_runs_widen_the_interval() -> None:
    sure = held(FIVE, FIVE)
    loose = held([timed(0.1, 0.1)] * 5, [timed(0.1, 0.1)] * 5)
    assert loose.high is not None
    assert sure.high is not None
    assert loose.high > 1.5 * sure.high


def own(step_s: float) -> Metric:
    return Metric(step_s, "s", step_s * 0.998, step_s * 1.002, 400)


def crowded(step_s: float, own_s: float) -> Report:
    return replace(timed(step_s), quality=replace(FIVE[0].quality, uncontended_step=own(own_s)))


def test_what_other_programs_cost_is_left_out_where_every_run_knows_it() -> None:
    regression = held([crowded(0.1, 0.1)] * 5, [crowded(0.2, 0.1)] * 5)
    assert (regression.status, regression.change) == (0, pytest.approx(0.0))
    assert (regression.base_contended, regression.new_contended) == (0.0, pytest.approx(0.5))
    blind = held([timed(0.1)] * 5, [crowded(0.2, 0.1)] * 5)
    assert (blind.status, blind.new_contended) == (1, None)


def test_much_that_is_left_out_leaves_doubt() -> None:
    assert held([crowded(0.1, 0.1)], [crowded(0.115, 0.115)]).status == 1
    assert held([crowded(0.1, 0.1)], [crowded(1.0, 0.115)]).status == 0


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (timed(None), "step_time_s was not measured in 0.json"),
        (timed(0.1, None), "the step time has no interval in 0.json"),
        (timed(0.0), "the step time is zero in 0.json"),
        (
            replace(timed(0.3), verdict=UNSURE, quality=replace(FIVE[0].quality, steady_steps=1)),
            "too few steps for step_time_s, 1 steady ones in 0.json",
        ),
    ],
)  # fmt: skip
def test_a_side_that_cannot_speak_is_named(new: Report, why: str) -> None:
    for regression in (held(FIVE[:1], [new]), held([new], FIVE[:1])):
        assert (regression.status, regression.why, regression.refused) == (3, why, False)


def test_a_machine_that_differs_refuses_unless_it_is_allowed_by_name() -> None:
    other = replace(timed(0.2), run=replace(RUN, torch="2.14"))
    refused = held(FIVE[:1], [other])
    assert (refused.status, refused.refused, refused.change) == (3, True, None)
    assert refused.differences == [Difference("torch", "2.13", "2.14", refuses=True)]
    allowed = held(FIVE[:1], [other], 0.03, "torch")
    assert (allowed.status, allowed.refused) == (1, False)
    assert allowed.differences == refused.differences


def test_batches_of_another_size_are_compared_by_the_sample() -> None:
    bigger = held([timed(0.1, batch=8)] * 5, [timed(0.2, batch=16)] * 5)
    assert (bigger.what, bigger.status) == ("sample", 0)
    assert bigger.change == pytest.approx(0.0)
    assert bigger.base_s == pytest.approx(0.0125)
    assert bigger.differences == [Difference("batch-size", 8.0, 16.0)]
    assert held([timed(0.1, batch=8)] * 5, [timed(0.1, batch=4)] * 5).status == 1


def test_a_run_that_strangers_crowded_out_says_nothing_of_the_job() -> None:
    """Its time cannot be corrected, and as it stands it is theirs: neither a failure nor a pass."""
    theirs = timed(0.5)
    gone = Metric(None, "s", source="steps were hardly anything but waiting")
    theirs = replace(theirs, quality=replace(theirs.quality, uncontended_step=gone))
    regression = held(FIVE, [*FIVE[1:], theirs])
    assert (regression.status, regression.change) == (3, None)
    assert regression.why == "steps were hardly anything but waiting in 4.json"
