"""What moved between two runs, and what only trembled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.compare import compare
from bottleneck_doctor.model.gate import Difference
from bottleneck_doctor.model.report import Metric, ReportedFinding
from tests.render.reports import TYPICAL, VERDICT


def kind(name: str, before: Metric | None, after: Metric | None) -> str | None:
    base = replace(TYPICAL, metrics={name: before} if before else {})
    new = replace(TYPICAL, metrics={name: after} if after else {})
    moves = compare(base, new).moves
    return moves[0].kind if moves else None


def metric(value: float | None, spread: float | None = 0.01) -> Metric:
    if value is None or spread is None:
        return Metric(value, "x")
    return Metric(value, "x", value - spread, value + spread, 100)


@pytest.mark.parametrize(
    ("name", "before", "after", "said"),
    [
        ("data_wait_fraction", metric(0.6), metric(0.1), "better"),
        ("data_wait_fraction", metric(0.1), metric(0.6), "worse"),
        ("steps_per_s", metric(10, 1), metric(20, 1), "better"),
        ("steps_per_s", metric(20, 1), metric(10, 1), "worse"),
        ("cpu_busy_fraction", metric(0.2), metric(0.9), "moved"),
        ("data_wait_fraction", metric(0.6, 0.1), metric(0.55, 0.1), "noise"),
        ("step_time_s", metric(0.1, 0.0001), metric(0.1015, 0.0001), "noise"),
        ("iowait_fraction", metric(0.001, 0.0), metric(0.002, 0.0), "noise"),
        ("step_time_s", metric(0.1, None), metric(0.2), "unknown"),
        ("gpu_busy_fraction", metric(None), metric(0.5), "absent"),
        ("gpu_busy_fraction", None, metric(0.5), "absent"),
        ("gpu_busy_fraction", metric(0.5), None, "absent"),
        ("gpu_busy_fraction", metric(None), metric(None), None),
    ],
)
def test_a_metric_moves_only_beyond_the_noise(
    name: str, before: Metric | None, after: Metric | None, said: str | None
) -> None:
    assert kind(name, before, after) == said


def test_a_run_compared_with_itself_did_not_move() -> None:
    comparison = compare(TYPICAL, TYPICAL)
    assert {move.kind for move in comparison.moves} <= {"noise", "unknown"}
    assert (comparison.gone, comparison.appeared, comparison.differences) == ([], [], [])


def test_findings_that_went_and_came_are_named() -> None:
    new = replace(
        TYPICAL, findings=[ReportedFinding("host-sync", "host.sync", "primary", []), TYPICAL.findings[0]]
    )
    comparison = compare(TYPICAL, new)
    assert comparison.gone == ["loader-in-main"]
    assert comparison.appeared == ["host-sync"]


def test_both_verdicts_are_kept() -> None:
    new = replace(TYPICAL, verdict=replace(VERDICT, bound="io"))
    comparison = compare(TYPICAL, new)
    assert (comparison.base.bound, comparison.new.bound) == ("cpu", "io")


def test_runs_on_other_machines_are_compared_with_a_warning() -> None:
    new = replace(TYPICAL, run=replace(TYPICAL.run, host="other", machine={"cores": 8.0, "gpus": []}))
    assert compare(TYPICAL, new).differences == [
        Difference("cores", 4.0, 8.0, refuses=True),
        Difference("host", "box", "other"),
    ]
