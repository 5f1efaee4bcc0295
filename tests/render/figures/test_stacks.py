"""The icicle of call paths: widths are samples, the number of boxes is bounded, no string is markup."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.picture import CallPath, CallPaths
from bottleneck_doctor.render.figures.stacks import MOST_BOXES, MOST_LEVELS, stacks_figure
from tests.render.hostile import ATTACKS
from tests.render.pictures import DEEP, STACKS


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
