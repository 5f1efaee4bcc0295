"""The timeline: plots by what is measured in what, marks shaded, outliers cut and said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.model.picture import Curve, Mark, Timeline
from bottleneck_doctor.render.figures.timeline import timeline_figure, unit_of
from tests.render.scenes import LARGEST, PICTURE, timeline

STEADY = Curve("step_time_s", "step", [1.0, 2.0, 3.0], [0.02, 0.021, 0.02])


def headings(run: Timeline) -> list[str]:
    figure = timeline_figure(run)
    assert figure is not None
    return [one["text"] for one in figure.layout["annotations"]]


def test_quantities_of_one_group_in_unlike_units_get_plots_of_their_own() -> None:
    found = headings(PICTURE.timeline)
    assert [text.partition("</b>")[0].removeprefix("<b>") for text in found] == [
        "step time", "data wait", "GPU", "cores busy", "workers busy", "reads", "processors idle for disks",
        "stalled for", "memory",
    ]  # fmt: skip
    assert "this job" in found[3]
    assert "others" in found[3]


def test_a_run_without_curves_has_no_timeline() -> None:
    assert timeline_figure(Timeline(10.0)) is None
    assert timeline_figure(Timeline(10.0, [Curve("gpu_busy_share", "gpu", [1.0], [None])])) is None
    assert timeline_figure(Timeline(0.0, [STEADY])) is None


def test_what_is_zero_all_along_is_not_drawn() -> None:
    nothing = Curve("iowait_share", "io", [1.0, 2.0], [0.0, 0.0])
    assert len(headings(Timeline(4.0, [STEADY, nothing]))) == 1


def test_one_outlier_does_not_flatten_the_plot_and_is_said() -> None:
    usual = [0.02] * 99
    curve = Curve("step_time_s", "step", [float(place) for place in range(100)], [*usual, 5.0])
    figure = timeline_figure(Timeline(100.0, [curve]))
    assert figure is not None
    assert figure.layout["yaxis"]["range"] == [0, pytest.approx(0.04)]
    assert "up to 5 s" in figure.layout["annotations"][0]["text"]


def test_a_share_of_the_whole_is_drawn_against_the_whole() -> None:
    figure = timeline_figure(Timeline(4.0, [Curve("data_wait_share", "wait", [1.0, 2.0], [0.01, 0.02])]))
    assert figure is not None
    assert figure.layout["yaxis"]["range"] == [0, 1.0]
    assert figure.layout["yaxis"]["ticktext"] == ["0 %", "50 %", "100 %"]


def test_marks_of_one_kind_are_one_shape_however_many_there_are() -> None:
    figure = timeline_figure(LARGEST.timeline)
    assert figure is not None
    assert len(figure.layout["shapes"]) == 5


def test_time_is_told_in_the_unit_of_the_run() -> None:
    titles = []
    for duration in (20.0, 1200.0, 86_400.0):
        figure = timeline_figure(timeline(duration))
        assert figure is not None
        titles.append(figure.layout["xaxis"]["title"]["text"].split()[0])
    assert titles == ["s", "min", "h"]


def test_hovers_say_numbers_in_words() -> None:
    figure = timeline_figure(Timeline(4.0, [STEADY]))
    assert figure is not None
    assert figure.data[-1]["text"] == ["20 ms", "21 ms", "20 ms"]


def test_gaps_stay_gaps_and_numbers_that_are_none_become_gaps() -> None:
    holed = replace(STEADY, value=[0.02, None, float("nan")])
    figure = timeline_figure(Timeline(4.0, [holed]))
    assert figure is not None
    assert figure.data[-1]["y"] == [0.02, None, None]


def test_names_and_labels_cannot_be_markup() -> None:
    hostile = "<a href='javascript:x'>b</a>&"
    run = Timeline(4.0, [replace(STEADY, name=hostile, group=hostile)], [Mark(hostile, 0.0, 1.0, hostile)])
    figure = timeline_figure(run)
    assert figure is not None
    assert "<a" not in str(figure.data) + str(figure.layout)


@pytest.mark.parametrize(
    ("name", "unit"),
    [("job_read_bytes_per_s", "bytes_per_s"), ("job_rss_bytes", "bytes"), ("step_time_s", "s"), ("odd", "")],
)
def test_units_are_read_from_the_ends_of_names(name: str, unit: str) -> None:
    assert unit_of(name) == unit
