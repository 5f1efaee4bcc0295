"""The figures of the page, as data for Plotly."""

from __future__ import annotations

import math
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
from bottleneck_doctor.render.figures.timeline import (
    curve_words,
    mark_words,
    plot_words,
    plots_of,
    ribbon,
    shades,
    timeline_figure,
    unit_of,
)
from bottleneck_doctor.render.html import (
    flat_told,
    lanes_table,
    marks_told,
    ranks_table,
    ranks_words,
    staircase_table,
    timeline_table,
)
from bottleneck_doctor.render.page import HERE
from tests.render.hostile import ATTACKS
from tests.render.reports import REMEDIES, TYPICAL
from tests.render.scenes import DEEP, LARGEST, PICTURE, STACKS, lanes, timeline


@pytest.mark.parametrize(
    ("name", "top", "texts"),
    [
        ("step_time_s", 0.055, ["0 s", "20 ms", "40 ms"]),
        ("data_wait_share", 1.0, ["0 %", "50 %", "100 %"]),
        ("job_cores", 3.9, ["0", "1", "2", "3"]),
        ("job_rss_bytes", 3.1 * 2**30, ["0 B", "1 GiB", "2 GiB", "3 GiB"]),
        ("disk_read_bytes_per_s", 40 * 2**20, ["0 B/s", "10 MiB/s", "20 MiB/s", "30 MiB/s", "40 MiB/s"]),
        ("step_time_s", 0.0, ["0 s"]),
    ],
)
def test_ticks_are_round_and_in_words(name: str, top: float, texts: list[str]) -> None:
    assert ticks(name, top)[1] == texts


@pytest.mark.parametrize("name", ["a_s", "a_share", "a_bytes", "a_cores"])
def test_there_are_always_a_few_ticks_below_the_top(name: str) -> None:
    for top in (10.0**power * digit for power in range(-9, 13) for digit in (1, 1.7, 3, 7.2)):
        values, texts = ticks(name, top)
        assert 2 <= len(values) <= 5
        assert values[-1] <= top * 1.01
        assert len(texts) == len(values)


def test_ticks_of_numbers_that_are_none_are_a_zero() -> None:
    assert ticks("a_s", math.nan)[0] == [0.0]


def test_the_clock_fits_the_length() -> None:
    assert [clock(length).unit for length in (0.04, 30, 900, 30_000)] == ["ms", "s", "min", "h"]


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


@pytest.mark.parametrize(
    ("name", "unit"),
    [("job_read_bytes_per_s", "bytes_per_s"), ("job_rss_bytes", "bytes"), ("step_time_s", "s"), ("odd", "")],
)
def test_units_are_read_from_the_ends_of_names(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_curves_that_a_later_version_may_have_get_plots_after_the_known_ones() -> None:
    later = Curve("fan_speed_share", "fans", [1.0], [0.5])
    known = Curve("step_time_s", "step", [1.0], [0.02])
    assert list(plots_of(Timeline(2.0, [later, known]))) == [("step", "s"), ("fans", "share")]
    assert plot_words(("fans", "share")) == "fans"
    assert curve_words(later) == "fan speed"


def test_what_was_never_measured_has_no_plot() -> None:
    assert plots_of(Timeline(2.0, [Curve("gpu_busy_share", "gpu", [1.0], [None])])) == {}


DAY = clock(86_400.0)
PHASES = [Mark("phase", 0.0, 50.0, "warm"), Mark("phase", 50.0, 90.0, "cold")]


def test_marks_of_one_kind_are_one_shape_however_many_there_are() -> None:
    marks = LARGEST.timeline.marks
    assert len(marks) > 200
    assert len(shades(marks, DAY)) == len({mark.kind for mark in marks})


def test_a_line_stands_where_a_phase_follows_another_and_only_there() -> None:
    (line,) = shades(PHASES, clock(90.0))
    assert line["path"] == "M50.0,0V1"
    assert shades(PHASES[:1], clock(90.0)) == []


def test_each_kind_has_a_row_that_names_it() -> None:
    data, axis = ribbon([*PHASES, Mark("checkpoint", 3.0, 3.1)], ["phase", "checkpoint"], clock(90.0), 0.9)
    assert axis["ticktext"] == ["phase", "checkpoint"]
    assert [len(row["x"]) for row in data] == [2, 1]


def test_a_mark_far_narrower_than_a_pixel_is_stroked_in_its_own_colour() -> None:
    data, _ = ribbon([Mark("checkpoint", 3.0, 3.001)], ["checkpoint"], DAY, 0.9)
    marker = data[0]["marker"]
    assert marker["line"]["width"] >= 1
    assert marker["line"]["color"] == marker["color"]


def test_a_mark_is_said_with_its_length_and_beginning() -> None:
    assert mark_words(Mark("evaluation", 12.1, 13.4)) == "evaluation: 1.3 s, from 12.1 s"


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


def test_pieces_of_a_batch_carry_its_number() -> None:
    figure = lanes_figure(lanes(workers=2, steps=8))
    of_batch = {trace["name"] for trace in figure.data if 414 in trace["customdata"]}
    assert {"waits for a batch", "on the CPU", "collates"} <= of_batch


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


def test_kinds_that_a_later_version_may_have_are_drawn_and_harmless() -> None:
    pieces = Pieces([0, 9], [0.0, 0.0], [0.1, 0.1], ["<b>new</b>", "wait"], [None, 1])
    figure = lanes_figure(replace(lanes(), pieces=pieces))
    assert "<b>new" not in str(figure.data)


def test_many_workers_get_narrow_lanes_and_all_fit_a_screen() -> None:
    assert lanes_figure(lanes(workers=2)).height < lanes_figure(lanes(workers=16)).height
    assert lanes_figure(lanes(workers=44, steps=50)).height < 700


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


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_string_is_read_as_html(attack: str) -> None:
    paths = CallPaths("trainer", 9, [CallPath([attack, f"{attack} ({attack}:7)"], 9, 1)])
    (trace,) = stacks_figure(paths, "").data
    said = "".join(trace["labels"]) + "".join(trace["hovertext"]).replace("<br>", "")
    assert "<" not in said
    assert said.isprintable()
