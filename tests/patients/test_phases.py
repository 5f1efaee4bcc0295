"""Recorded patients that change while they run: their phases, and none where nothing does."""

from __future__ import annotations

from itertools import groupby

import pytest

from tests.lab.golden import GOLDEN
from tests.lab.kept import report_of

FINDINGS = {"step-time-drift"}


@pytest.mark.parametrize(
    ("name", "reading", "findings"),  # whether phases are I/O-bound, in order; findings about change
    [
        ("cold-first-epoch", [True, False], set()),
        ("drifting", [False], {"step-time-drift"}),
        ("periodic-evaluation", [False], set()),  # evaluation is no part of a step
        ("bimodal-batches", [False], set()),
        ("single-stall", [False], set()),
    ],
)
def test_a_recorded_run_has_the_phases_that_were_put_there(
    name: str, reading: list[bool], findings: set[str]
) -> None:
    report = report_of(GOLDEN / "accuracy", name)
    bound_by_io = [phase["verdict"]["bound"] == "io" for phase in report["phases"]]
    assert [bound for bound, _ in groupby(bound_by_io)] == reading
    assert FINDINGS & {finding["id"] for finding in report["findings"]} == findings
