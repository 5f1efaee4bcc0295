"""Recorded patients that change while they run: their phases, and none where nothing does."""

from itertools import groupby

import pytest

from tests.lab.golden import GOLDEN
from tests.lab.kept import report_of


@pytest.mark.parametrize(
    ("name", "reading"),  # whether phases are I/O-bound, in order
    [
        ("cold-first-epoch", [True, False]),
        ("periodic-evaluation", [False]),  # evaluation is no part of a step
        ("bimodal-batches", [False]),
        ("single-stall", [False]),
    ],
)
def test_a_recorded_run_has_the_phases_that_were_put_there(name: str, reading: list[bool]) -> None:
    report = report_of(GOLDEN / "accuracy", name)
    bound_by_io = [phase["verdict"]["bound"] == "io" for phase in report["phases"]]
    assert [bound for bound, _ in groupby(bound_by_io)] == reading
