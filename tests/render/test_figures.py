"""The figures of the page, as data for Plotly."""

from dataclasses import replace

import pytest

from bottleneck_doctor.model.picture import CallPath, CallPaths, Curve, RankMap, Timeline
from bottleneck_doctor.render.figures import Figure
from bottleneck_doctor.render.figures.stacks import (
    MOST_BOXES,
    MOST_LEVELS,
    boxes_of,
    stacks_figure,
    stacks_table,
)
from bottleneck_doctor.render.figures.timeline import ranks_figure, timeline_figure
from bottleneck_doctor.render.html import PARTS, mark_lines, ranks_table, ranks_words, show, timeline_table
from bottleneck_doctor.render.page import HERE
from tests.render.drawn import require_golden
from tests.render.hostile import attacked
from tests.render.reports import WATCHED
from tests.render.scenes import PICTURE, STACKS


def words_of(figure: Figure) -> list[str]:
    """What a figure reports: axes with titles and ticks, headings, and each trace's name, form and pieces."""
    said = [f"{figure.label} ({figure.height} px)"]
    for name, axis in figure.layout.items():
        if name[1:5] == "axis":
            title = axis.get("title", {}).get("text", "")
            ends = [round(float(one), 2) for one in axis.get("range", ())]
            said.append(f"  {name} {title}: {ends} {axis.get('ticktext', '')}".rstrip())
    said += [f"  heading {one['text']}" for one in figure.layout.get("annotations", ())]
    for trace in figure.data:
        values = trace.get("x") or trace.get("values") or ()
        pattern = ", hatched" if trace.get("marker", {}).get("pattern") else ""
        said.append(f"  {trace.get('name') or trace['type']}: {len(values)} pieces{pattern}")
        said += [f"    {text}" for text in list(trace.get("hovertext") or trace.get("text") or ())[:3]]
    return said


def test_all_figures_and_their_tables_say_what_was_accepted() -> None:
    picture = replace(PICTURE, stacks=STACKS, ranks=LATE)
    figures = show(WATCHED, picture).figures
    said = [f"{name}: {line}" for name, figure in figures.items() for line in words_of(figure)]
    tables = timeline_table(picture.timeline), ranks_table(LATE)
    said += [str(row) for table in tables for row in (table.heads, *table.rows)]
    said += [str(row) for paths in STACKS for row in stacks_table(paths, WATCHED.run.cwd)]
    said += [ranks_words(LATE), *mark_lines(picture.timeline.marks)]
    require_golden("figures.txt", "\n".join(said) + "\n")


STEADY = Curve("step_time_s", "step", [float(t) for t in range(8)], [0.02] * 8)


def test_nothing_is_drawn_of_too_little() -> None:
    assert timeline_figure(Timeline(10.0)) is None
    assert timeline_figure(Timeline(10.0, [replace(STEADY, value=[0.0] * 8)])) is None
    assert timeline_figure(Timeline(10.0, [replace(STEADY, value=[*[0.02] * 7, None])])) is None, "too few"
    assert timeline_figure(Timeline(0.0, [STEADY])) is None
    assert ranks_figure(RankMap(["rank 0"], [1, 2], [0.1, 0.2], [[None]])) is None


def test_one_outlier_does_not_flatten_the_plot_and_is_said() -> None:
    curve = Curve("step_time_s", "step", [float(place) for place in range(100)], [*[0.02] * 99, 5.0])
    figure = timeline_figure(Timeline(100.0, [curve]))
    assert figure is not None
    assert figure.layout["yaxis"]["range"] == [0, pytest.approx(0.04)]
    assert "up to 5 s" in figure.layout["annotations"][0]["text"]


def test_gaps_stay_gaps_and_numbers_that_are_none_become_gaps() -> None:
    holed = replace(STEADY, t=[float(t) for t in range(10)], value=[*[0.02] * 8, None, float("nan")])
    figure = timeline_figure(Timeline(10.0, [holed]))
    assert figure is not None
    assert figure.data[-1]["y"] == [*[0.02] * 8, None, None]


def test_names_and_labels_cannot_be_markup() -> None:
    hostile = "<a href='javascript:x'>b</a>&"
    picture = attacked(replace(PICTURE, stacks=STACKS, ranks=LATE), hostile)
    figures = show(attacked(WATCHED, hostile), picture).figures
    assert len(figures) == 3, "of stacks, time and ranks"
    assert [name for name, one in figures.items() if "<a" in str(one.data) + str(one.layout)] == []


def test_every_part_of_a_step_has_a_colour_in_light_and_dark() -> None:
    style = (HERE / "page.css").read_text("utf-8")
    for kind in {*PARTS.values()}:
        assert style.count(f"--{kind}: #") == 3, kind  # light, the system's dark, chosen dark


LATE = RankMap(
    ["rank 0", "rank 1, <b>"], [10, 20, 30], [0.5, 1.0, 2.5], [[1.0, None], [2.0, 1.5]], left_out=3
)


def test_boxes_and_levels_are_bounded_and_each_lies_within_its_caller() -> None:
    deep = [
        CallPath([f"f (/a/{min(depth, 9) * number // 9}.py:{depth})" for depth in range(128)], 7)
        for number in range(600)
    ]
    boxes = boxes_of(CallPaths("worker", 4200, deep))
    assert len(boxes) == MOST_BOXES
    assert max(box.depth for box in boxes) < MOST_LEVELS
    spans = {(box.depth, at) for box in boxes for at in range(box.begin, box.begin + box.frames[0].count)}
    assert all({(box.depth - 1, box.begin)} <= spans for box in boxes[1:])
    thin = [CallPath([f"f{at} (/a.py:{at})"], 1, 1) for at in range(5000)]
    assert len(boxes_of(CallPaths("trainer", 5000, thin))) == 1


def test_frames_of_a_library_with_nearly_the_same_samples_are_one_box() -> None:
    library = [f"f{at} (/usr/lib/python3.11/site-packages/a.py:{at})" for at in range(9)]
    own = "Net.forward (/home/ann/net.py:7)"
    paths = [CallPath([*library, own, library[0]], 97, 90), CallPath([*library[:5], own], 3, 3)]
    figure = stacks_figure(CallPaths("trainer", 100, paths), "/home/ann")
    assert figure.data[0]["text"] == ["all 100 samples", "f0 … f8", "Net.forward", "f0"]
    assert figure.data[0]["x"] == [100, 100, 97, 97]
    assert "net.py:7" in figure.data[0]["hovertext"][2]
    assert "1 more frame" in figure.data[0]["hovertext"][1]
