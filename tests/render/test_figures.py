"""The figures of the page, as data for Plotly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bottleneck_doctor.model.picture import (
    LOOP_PIECES,
    WORKER_PIECES,
    CallPath,
    CallPaths,
    Curve,
    Lanes,
    Mark,
    Pieces,
    RankMap,
    Timeline,
)
from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.render.figures.axes import clock, ticks
from bottleneck_doctor.render.figures.lanes import KINDS, lanes_figure, legend
from bottleneck_doctor.render.figures.ranks import ranks_figure
from bottleneck_doctor.render.figures.stacks import MOST_BOXES, MOST_LEVELS, stacks_figure
from bottleneck_doctor.render.figures.staircase import MOST, staircase_figure
from bottleneck_doctor.render.figures.timeline import shades, timeline_figure
from bottleneck_doctor.render.html import (
    flat_words,
    lanes_table,
    mark_lines,
    ranks_table,
    ranks_words,
    show,
    timeline_table,
)
from bottleneck_doctor.render.page import HERE
from tests.render.hostile import attacked
from tests.render.reports import REMEDIES, TYPICAL, WATCHED
from tests.render.scenes import DEEP, PICTURE, STACKS, lanes, timeline


@pytest.mark.parametrize(
    ("name", "top", "texts"),
    [
        ("step_time_s", 0.055, ["0 s", "20 ms", "40 ms"]),
        ("disk_read_bytes_per_s", 40 * 2**20, ["0 B/s", "10 MiB/s", "20 MiB/s", "30 MiB/s", "40 MiB/s"]),
        ("step_time_s", 0.0, ["0 s"]),
    ],
)
def test_ticks_are_round_and_in_words(name: str, top: float, texts: list[str]) -> None:
    assert ticks(name, top)[1] == texts


def test_plots_that_are_zero_all_along_are_named_and_not_drawn() -> None:
    zero = Curve("iowait_share", "io", [1.0, 2.0], [0.0, 0.0])
    assert flat_words(Timeline(10.0, [zero])) == "Zero all along, and not drawn: processors idle for disks."
    assert len(headings(Timeline(4.0, [STEADY, zero]))) == 1


def test_a_table_has_the_mean_of_each_curve_in_each_tenth_of_the_run() -> None:
    curve = Curve("step_time_s", "step", [0.5, 0.6, 9.5], [0.01, 0.03, 0.05])
    table = timeline_table(Timeline(10.0, [curve, Curve("gpu_busy_share", "gpu", [1.0], [None])]))
    assert table.heads[:3] == ["", "from 0 s", "from 1 s"]
    assert table.rows == [["step time: mean", "20 ms", *[""] * 8, "50 ms"]]


def test_marks_are_told_and_those_beyond_forty_counted() -> None:
    told = mark_lines([Mark("checkpoint", 1.0, 1.5, "last.pt")] * 42)
    assert told[0] == "checkpoint (last.pt): 500 ms, from 1 s"
    assert told[-1] == "2 more stretches"
    assert len(told) == 41


def test_lanes_are_told_by_the_sum_of_each_kind() -> None:
    pieces = Pieces([0, 0, 1], [0.0, 0.5, 0.0], [0.25, 0.25, 1.0], ["wait", "wait", "cpu"], [1, 2, 1])
    table = lanes_table(Lanes(0.0, 1.0, [7], 2, 0.5, pieces))
    assert table.heads == ["", "waits for a batch", "on the CPU"]
    assert table.rows == [["loop", "500 ms (50 %)", ""], ["worker 7", "", "1 s (100 %)"]]


PHASES = [Mark("phase", 0.0, 50.0, "warm"), Mark("phase", 50.0, 90.0, "cold")]


def test_a_line_stands_where_a_phase_follows_another_and_only_there() -> None:
    (line,) = shades(PHASES, clock(90.0))
    assert line["path"] == "M50.0,0V1"
    assert shades(PHASES[:1], clock(90.0)) == []


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


def test_time_is_told_in_the_unit_of_the_run() -> None:
    titles = []
    for duration in (20.0, 1200.0, 86_400.0):
        figure = timeline_figure(timeline(duration))
        assert figure is not None
        titles.append(figure.layout["xaxis"]["title"]["text"].split()[0])
    assert titles == ["s", "min", "h"]


def test_gaps_stay_gaps_and_numbers_that_are_none_become_gaps() -> None:
    holed = replace(STEADY, value=[0.02, None, float("nan")])
    figure = timeline_figure(Timeline(4.0, [holed]))
    assert figure is not None
    assert figure.data[-1]["y"] == [0.02, None, None]


def test_names_and_labels_cannot_be_markup() -> None:
    hostile = "<a href='javascript:x'>b</a>&"
    picture = attacked(replace(PICTURE, stacks=STACKS, ranks=LATE), hostile)
    figures = show(attacked(WATCHED, hostile), picture).figures
    assert len(figures) == 5, "of stacks, remedies, time, lanes and ranks"
    assert [name for name, one in figures.items() if "<a" in str(one.data) + str(one.layout)] == []


def test_every_kind_of_piece_has_words_and_a_colour_in_light_and_dark() -> None:
    style = (HERE / "page.css").read_text("utf-8")
    for kind in {*LOOP_PIECES, *WORKER_PIECES}:
        assert kind in KINDS
        assert style.count(f"--{kind.replace(' ', '-')}: #") == 3, (
            kind
        )  # light, the system's dark, chosen dark


def test_all_pieces_are_drawn_in_their_lanes() -> None:
    shown = lanes(workers=2, steps=8)
    figure = lanes_figure(shown)
    assert sum(len(trace["x"]) for trace in figure.data) == len(shown.pieces.lane)
    assert figure.layout["yaxis"]["ticktext"] == ["loop", "worker 0", "worker 1"]
    assert figure.layout["yaxis"]["range"][0] > figure.layout["yaxis"]["range"][1], "the loop is on top"


def test_a_hover_says_who_what_which_batch_and_when() -> None:
    pieces = Pieces([1], [10.5], [0.012], ["cpu"], [41])
    figure = lanes_figure(Lanes(10.0, 11.0, [3], 1, 0.5, pieces))
    assert figure.data[0]["hovertext"] == ["<b>worker 3</b> on the CPU · batch 41<br>12 ms, from 500 ms"]


def test_the_legend_tells_the_loop_from_the_workers() -> None:
    pieces = Pieces([0, 0, 1, 1], [0.0] * 4, [0.1] * 4, ["wait", "unseen", "cpu", "unseen"], [None] * 4)
    told = legend(Lanes(0.0, 1.0, [0], 1, 0.5, pieces))
    assert [(whose, [called for called, _, _ in kinds]) for whose, kinds in told] == [
        ("the loop", ["waits for a batch", "not sampled"]),
        ("a worker", ["not sampled", "on the CPU"]),
    ]


def test_waiting_is_told_from_work_without_colours() -> None:
    figure = lanes_figure(lanes())
    widths = {trace["name"]: trace["width"] for trace in figure.data}
    assert widths["waits for a batch"] < widths["backward"]
    hatched = [trace["name"] for trace in figure.data if trace["marker"]["pattern"]]
    assert hatched == ["waits for a batch"]


LATE = RankMap(
    ["rank 0", "rank 1, <b>"], [10, 20, 30], [0.5, 1.0, 2.5], [[1.0, None], [2.0, 1.5]], left_out=3
)


def test_each_cell_says_its_rank_steps_and_how_late() -> None:
    figure = ranks_figure(LATE)
    assert figure is not None
    (map_,) = figure.data
    assert map_["z"] == [[1.0, None], [2.0, 1.5]]
    assert map_["zmax"] == 2.0
    assert map_["x"] == [0.5, 1.0, 2.5]  # the slower stretch is the wider column
    assert figure.layout["xaxis"]["title"]["text"] == "s since the run began"
    assert map_["hovertext"][1][0] == "rank 1, &lt;b&gt;<br>steps 10 to 20: ×2.0 the median"
    assert map_["hovertext"][0][1].endswith("set aside")


def test_its_words_and_numbers_say_the_same() -> None:
    assert "3 more ranks nearer" in ranks_words(LATE)
    assert "set aside" in ranks_words(LATE)
    assert ranks_table(LATE).rows[1][1:] == ["×1.8", "×2.0"]


def test_nothing_comparable_is_not_drawn() -> None:
    assert ranks_figure(RankMap(["rank 0"], [1, 2], [0.1, 0.2], [[None]])) is None


def test_the_stairs_rise_to_what_remedies_bring_together() -> None:
    figure = staircase_figure(TYPICAL.remedies)
    assert figure is not None
    assert staircase_figure([REMEDIES[-1]]) is None, "what hurts is no stair"
    stairs = figure.data[0]
    assert stairs["y"][0] == 1.0
    together = [one.combined_speedup for one in TYPICAL.remedies if one.combined_speedup is not None]
    assert stairs["y"][-1] == together[-1]


def test_an_absurd_speedup_and_many_remedies_still_make_a_chart() -> None:
    absurd = replace(REMEDIES[0], predicted_speedup=Speedup(1e308, float("inf"), float("nan"), "replay"))
    figure = staircase_figure([absurd, *REMEDIES * 20])
    assert figure is not None
    assert len(figure.layout["xaxis"]["tickvals"]) == MOST + 1
    assert 2 <= len(figure.layout["yaxis"]["tickvals"]) <= 8


def test_boxes_stand_below_their_callers_as_wide_as_their_samples() -> None:
    (trace,) = stacks_figure(STACKS[0], "/home/ann/cats").data
    label = dict(zip(trace["ids"], trace["labels"], strict=True))
    rows = zip(trace["labels"], trace["parents"], trace["values"], trace["marker"]["colors"], strict=True)
    assert [(name, label.get(above, ""), count, color) for name, above, count, color in rows] == [
        ("The training thread", "", 98, "var(--unseen)"),
        ("main", "The training thread", 98, "var(--compute)"),
        ("__next__", "main", 80, "var(--unseen)"),
        ("wait", "__next__", 80, "var(--unseen)"),
    ]


def test_the_pointer_shows_line_share_and_samples() -> None:
    (trace,) = stacks_figure(STACKS[1], "/home/ann/cats").data
    said = "Photos.__getitem__<br>data.py:12<br>92 %, 357 samples<br>on a CPU in 53 % of them"
    assert said in trace["hovertext"]


def test_boxes_and_height_are_bounded() -> None:
    figure = stacks_figure(DEEP.stacks[0], "")
    assert len(figure.data[0]["ids"]) == MOST_BOXES
    assert figure.data[0]["maxdepth"] <= MOST_LEVELS
    thin = [CallPath([f"f{at} (/a.py:{at})"], 1, 1) for at in range(5000)]
    assert len(stacks_figure(CallPaths("trainer", 5000, thin), "").data[0]["ids"]) == 1
