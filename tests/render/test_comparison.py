"""Two runs side by side, as drawn."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

from bottleneck_doctor.analyse.compare import compare
from bottleneck_doctor.model.report import Metric, Report
from bottleneck_doctor.render.gate import comparison_text
from tests.render.drawn import require_golden
from tests.render.hostile import ATTACKS, attacked
from tests.render.reports import HEALTHY, METRICS, TYPICAL

CURED = replace(
    HEALTHY,
    metrics={
        **METRICS,
        "data_wait_fraction": Metric(0.02, "fraction", 0.015, 0.03, 402, "loader hook"),
        "step_time_s": Metric(0.0097, "s", 0.0096, 0.0098, 402, "loader hook"),
        "cpu_busy_fraction": Metric(0.9, "fraction", 0.88, 0.92, 80, "/proc"),
        "worker_busy_fraction": Metric(0.6, "fraction", None, None, 402, "loader hook"),
    },
)


@pytest.mark.parametrize(("name", "new"), [("cured", CURED), ("same", TYPICAL)])
def test_a_comparison_is_drawn_as_accepted(name: str, new: Report) -> None:
    require_golden(f"compare-{name}.txt", comparison_text(compare(TYPICAL, new)))


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_foreign_reaches_the_terminal_as_a_command(attack: str) -> None:
    hostile = attacked(TYPICAL, ATTACKS[attack])
    hostile = replace(hostile, metrics={ATTACKS[attack]: METRICS["step_time_s"]})
    drawn = comparison_text(compare(TYPICAL, hostile), "ascii")
    assert drawn.isascii()
    assert not [sign for sign in drawn if unicodedata.category(sign) == "Cc" and sign != "\n"]
