"""The numbers behind the charts, for whoever reads instead of looking."""

from __future__ import annotations

from bottleneck_doctor.model.picture import Curve, Lanes, Mark, Pieces, Timeline
from bottleneck_doctor.render.html import flat_told, lanes_table, marks_told, timeline_table


def test_a_curve_is_told_by_its_mean_in_each_tenth_of_the_run() -> None:
    curve = Curve("step_time_s", "step", [0.5, 0.6, 9.5], [0.01, 0.03, 0.05])
    table = timeline_table(Timeline(10.0, [curve]))
    assert table.heads[:3] == ["", "from 0 s", "from 1 s"]
    assert table.rows == [["step time: mean", "20 ms", *[""] * 8, "50 ms"]]


def test_what_was_not_measured_has_no_row() -> None:
    assert timeline_table(Timeline(10.0, [Curve("gpu_busy_share", "gpu", [1.0], [None])])).rows == []


def test_plots_that_are_zero_all_along_are_named() -> None:
    zero = Curve("iowait_share", "io", [1.0], [0.0])
    assert flat_told(Timeline(10.0, [zero])) == "Zero all along, and not drawn: processors idle for disks."
    assert flat_told(Timeline(10.0)) == ""


def test_marks_are_told_and_those_beyond_forty_counted() -> None:
    told = marks_told([Mark("checkpoint", 1.0, 1.5, "last.pt")] * 42)
    assert told[0] == "checkpoint (last.pt): 500 ms, from 1 s"
    assert told[-1] == "2 more stretches"
    assert len(told) == 41


def test_lanes_are_told_by_the_sum_of_each_kind() -> None:
    pieces = Pieces([0, 0, 1], [0.0, 0.5, 0.0], [0.25, 0.25, 1.0], ["wait", "wait", "cpu"], [1, 2, 1])
    table = lanes_table(Lanes(0.0, 1.0, [7], 2, 0.5, pieces))
    assert table.heads == ["", "waits for a batch", "on the CPU"]
    assert table.rows == [["loop", "500 ms (50 %)", ""], ["worker 7", "", "1 s (100 %)"]]
