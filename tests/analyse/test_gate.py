"""The gate as a table: what holds, what fails, what nobody can say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.conditions import parse_condition
from bottleneck_doctor.analyse.gate import check, judge, known_metrics, worst
from bottleneck_doctor.model.gate import Condition, Repeat
from bottleneck_doctor.model.report import Metric, Overhead, Quality, Report, RunSummary, Verdict

RUN = RunSummary(["t.py"], "t.py", "/", "2026-03-01T12:00:00Z", 9.0, 0, "box", "3.11", "2.13")
CPU = Verdict("cpu", "input.preprocess", "", "high")
UNSURE = Verdict("inconclusive", "none", "", "low")


def report(verdict: Verdict = CPU, steps: int = 400, **metrics: Metric) -> Report:
    return Report(RUN, Quality(steps, 10, 0.1, Overhead(None, None, None)), metrics, [], verdict)


WAIT = Metric(0.3, "fraction", 0.28, 0.33, 400, "loader hook")
REPORT = report(
    data_wait_fraction=WAIT, gpu_busy_fraction=Metric(None, "fraction"), startup_s=Metric(3.0, "s", n=1)
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("data_wait_fraction > 0.2", 1),
        ("data_wait_fraction > 0.3", 0),
        ("data_wait_fraction >= 0.3", 1),
        ("data_wait_fraction < 0.3", 0),
        ("data_wait_fraction <= 0.3", 1),
        ("data_wait_fraction == 0.3", 1),
        ("data_wait_fraction != 0.3", 0),
        ("data_wait_fraction != 0.4", 1),
        ("startup_s > 2", 1),
        ("gpu_busy_fraction < 0.8", 3),
        ("gpu_busy_fraction >= 0", 3),
        ("iowait_fraction > 0.1", 3),
    ],
)
def test_a_condition_names_the_failing_state(text: str, status: int) -> None:
    condition = (
        parse_condition(text) if text != "gpu_busy_fraction >= 0" else Condition("gpu_busy_fraction", ">=", 0)
    )
    assert judge(REPORT, [condition]).status == status


@pytest.mark.parametrize(
    ("statuses", "status"), [([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 1], 1), ([1, 0], 1), ([3, 3], 3)]
)
def test_an_excess_outweighs_ignorance_and_ignorance_outweighs_a_pass(
    statuses: list[int], status: int
) -> None:
    assert worst(statuses) == status


def test_every_condition_is_judged_in_the_order_given() -> None:
    asked = [parse_condition("gpu_busy_fraction < 0.8"), parse_condition("data_wait_fraction > 0.2")]
    outcome = judge(REPORT, asked)
    assert outcome.status == 1
    assert [judgement.condition for judgement in outcome.judgements] == asked
    assert [judgement.status for judgement in outcome.judgements] == [3, 1]


def test_a_judgement_carries_value_interval_and_steps() -> None:
    judgement = judge(REPORT, [parse_condition("data_wait_fraction > 0.2")]).judgements[0]
    assert (judgement.value, judgement.low, judgement.high, judgement.n) == (0.3, 0.28, 0.33, 400)


@pytest.mark.parametrize(
    ("threshold", "close"), [("0.2", False), ("0.27", False), ("0.29", True), ("0.31", True), ("0.4", False)]
)
def test_a_threshold_inside_the_interval_is_close(threshold: str, close: bool) -> None:
    condition = parse_condition(f"data_wait_fraction > {threshold}")
    assert judge(REPORT, [condition]).judgements[0].close is close


@pytest.mark.parametrize(("verdict", "steps", "status"), [(UNSURE, 3, 3), (UNSURE, 400, 1), (CPU, 3, 1)])
def test_too_few_steps_for_a_verdict_are_too_few_for_a_gate(
    verdict: Verdict, steps: int, status: int
) -> None:
    few = report(verdict, steps, data_wait_fraction=WAIT)
    assert judge(few, [parse_condition("data_wait_fraction > 0.2")]).status == status


def test_too_few_steps_do_not_hide_what_is_measured_once() -> None:
    few = report(UNSURE, 3, startup_s=Metric(100.0, "s", n=1))
    assert judge(few, [parse_condition("startup_s > 60")]).status == 1


def test_conditions_may_name_what_only_this_report_holds() -> None:
    known = known_metrics([report(opens_per_step=Metric(3.0, "count"))])
    assert parse_condition("opens_per_step > 2", known).metric == "opens_per_step"
    assert "data_wait_fraction" in known


RUN_OF = [Repeat("a.json", REPORT), Repeat("b.json", report(data_wait_fraction=replace(WAIT, value=0.1)))]


def test_of_several_profiles_each_is_judged_on_its_own_and_the_worst_decides() -> None:
    gate = check(RUN_OF, [parse_condition("data_wait_fraction > 0.2")])
    assert [(one.profile, one.outcome.status) for one in gate.checked] == [("a.json", 1), ("b.json", 0)]
    assert gate.status == 1
    assert gate.regression is None


def test_a_regression_that_cannot_be_judged_outweighs_thresholds_that_hold() -> None:
    asked = [parse_condition("data_wait_fraction > 0.9")]
    gate = check(RUN_OF, asked, base=RUN_OF[:1], limit=0.05)
    assert gate.regression is not None
    assert gate.regression.why == "step_time_s was not measured in a.json"
    assert gate.status == 3
