"""Marks: named in a ribbon, shaded through the plots, seen however short."""

from __future__ import annotations

from bottleneck_doctor.model.picture import Mark
from bottleneck_doctor.render.figures.axes import clock
from bottleneck_doctor.render.figures.timeline import mark_words, ribbon, shades
from tests.render.scenes import LARGEST

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
