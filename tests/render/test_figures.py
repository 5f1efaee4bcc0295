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
    RankMap,
    Timeline,
)
from bottleneck_doctor.model.report import Speedup
from bottleneck_doctor.render.figures import Figure, ticks
from bottleneck_doctor.render.figures.lanes import KINDS, legend
from bottleneck_doctor.render.figures.stacks import MOST_BOXES, MOST_LEVELS, stacks_figure
from bottleneck_doctor.render.figures.staircase import MOST, staircase_figure
from bottleneck_doctor.render.figures.timeline import ranks_figure, timeline_figure
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
from tests.render.drawn import require_golden
from tests.render.hostile import attacked
from tests.render.reports import REMEDIES, WATCHED
from tests.render.scenes import DEEP, PICTURE, STACKS


def words_of(figure: Figure) -> list[str]:
    """What a figure says: of each axis its title, its ticks and where it ends, then headings, then of each
    trace its name, its form, how many pieces it has, and what the pointer shows of the first three."""
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
    assert picture.lanes is not None
    tables = timeline_table(picture.timeline), lanes_table(picture.lanes), ranks_table(LATE)
    said += [str(row) for table in tables for row in (table.heads, *table.rows)]
    said += [ranks_words(LATE), flat_words(picture.timeline), *mark_lines(picture.timeline.marks)]
    said += [f"{whose}: {[called for called, _, _ in kinds]}" for whose, kinds in legend(picture.lanes)]
    require_golden("figures.txt", "\n".join(said) + "\n")


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


STEADY = Curve("step_time_s", "step", [1.0, 2.0, 3.0], [0.02, 0.021, 0.02])


def headings(run: Timeline) -> list[str]:
    figure = timeline_figure(run)
    assert figure is not None
    return [one["text"] for one in figure.layout["annotations"]]


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


LATE = RankMap(
    ["rank 0", "rank 1, <b>"], [10, 20, 30], [0.5, 1.0, 2.5], [[1.0, None], [2.0, 1.5]], left_out=3
)


def test_nothing_comparable_is_not_drawn() -> None:
    assert ranks_figure(RankMap(["rank 0"], [1, 2], [0.1, 0.2], [[None]])) is None


def test_an_absurd_speedup_and_many_remedies_still_make_a_chart() -> None:
    absurd = replace(REMEDIES[0], predicted_speedup=Speedup(1e308, float("inf"), float("nan"), "replay"))
    figure = staircase_figure([absurd, *REMEDIES * 20])
    assert figure is not None
    assert len(figure.layout["xaxis"]["tickvals"]) == MOST + 1
    assert 2 <= len(figure.layout["yaxis"]["tickvals"]) <= 8


def test_boxes_and_height_are_bounded() -> None:
    figure = stacks_figure(DEEP.stacks[0], "")
    assert len(figure.data[0]["ids"]) == MOST_BOXES
    assert figure.data[0]["maxdepth"] <= MOST_LEVELS
    thin = [CallPath([f"f{at} (/a.py:{at})"], 1, 1) for at in range(5000)]
    assert len(stacks_figure(CallPaths("trainer", 5000, thin), "").data[0]["ids"]) == 1
