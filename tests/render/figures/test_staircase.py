"""The staircase: each remedy alone, and how far all up to it lead."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.render.figures.staircase import MOST, staircase_figure
from bottleneck_doctor.render.html import staircase_table
from tests.render.reports import REMEDIES, TYPICAL


def test_the_stairs_rise_to_what_remedies_bring_together() -> None:
    figure = staircase_figure(TYPICAL.remedies)
    assert figure is not None
    stairs = figure.data[0]
    assert stairs["y"][0] == 1.0
    together = [one.combined_speedup for one in TYPICAL.remedies if one.combined_speedup is not None]
    assert stairs["y"][-1] == together[-1]


def test_without_remedies_that_help_there_is_no_staircase() -> None:
    assert staircase_figure([]) is None
    harm = replace(REMEDIES[0], predicted_speedup=Speedup(0.7, 0.8, 0.9, "replay"))
    assert staircase_figure([harm]) is None


def test_where_nothing_was_predicted_together_only_single_remedies_are_drawn() -> None:
    alone = replace(REMEDIES[0], combined_speedup=None)
    figure = staircase_figure([alone])
    assert figure is not None
    assert [trace["mode"] for trace in figure.data] == ["lines", "markers+text"]


def test_an_absurd_speedup_and_many_remedies_still_make_a_chart() -> None:
    absurd = replace(REMEDIES[0], predicted_speedup=Speedup(1e308, float("inf"), float("nan"), "replay"))
    figure = staircase_figure([absurd, *REMEDIES * 20])
    assert figure is not None
    assert len(figure.layout["xaxis"]["tickvals"]) == MOST + 1
    assert 2 <= len(figure.layout["yaxis"]["tickvals"]) <= 8


def test_the_table_says_what_the_chart_draws() -> None:
    rows = staircase_table(TYPICAL.remedies).rows
    assert rows[0][0].startswith("1. Make batches in worker processes")
    assert rows[0][1:3] == ["×2.5", "×2.2–2.6"]
