"""The flame graph's boxes: widths are samples, colours who was awake, numbers bounded, strings harmless."""

from __future__ import annotations

import pytest

from bottleneck_doctor.model.picture import CallPath, CallPaths
from bottleneck_doctor.render.figures.axes import Figure
from bottleneck_doctor.render.flamegraph import FEWEST, MOST_BOXES, colour, flame
from bottleneck_doctor.render.stacks import Node, call_tree, on_cpu_share
from tests.render.hostile import ATTACKS
from tests.render.pictures import STACKS

TRAINER, WORKERS, OTHERS = map(call_tree, STACKS)


def boxes(figure: Figure) -> dict[str, tuple[str, int, str]]:
    """Of each label: the label above it, its samples, its colour."""
    (trace,) = figure.data
    name = dict(zip(trace["ids"], trace["labels"], strict=True))
    rows = zip(trace["labels"], trace["parents"], trace["values"], trace["marker"]["colors"], strict=True)
    return {label: (name.get(above, ""), count, shade) for label, above, count, shade in rows}


def recursion(depth: int) -> Node:
    return call_tree(
        CallPaths("trainer", 1, [CallPath([f"f (/a.py:{line})" for line in range(depth)], 1, 1)])
    )


def test_boxes_stand_below_their_callers_as_wide_as_their_samples() -> None:
    assert boxes(flame(TRAINER, "The training thread", "/home/ann/cats")) == {
        "The training thread": ("", 98, "var(--flame-unseen)"),
        "main": ("The training thread", 98, "var(--flame-0)"),
        "__next__": ("main", 80, "var(--flame-0)"),
        "wait": ("__next__", 80, "var(--flame-0)"),
    }


def test_hovering_tells_file_line_share_and_samples() -> None:
    (trace,) = flame(WORKERS, "The workers", "/home/ann/cats").data
    assert (
        "Photos.__getitem__<br>data.py:12<br>92 %, 357 samples<br>on CPU in 188 of them" in trace["hovertext"]
    )


@pytest.mark.parametrize(
    ("share", "shade"), [(0.0, "0"), (0.19, "0"), (0.5, "2"), (0.81, "4"), (1.0, "4"), (None, "unseen")]
)
def test_the_colour_goes_from_blocked_to_on_cpu(share: float | None, shade: str) -> None:
    assert colour(share) == f"var(--flame-{shade})"


def test_who_slept_is_not_said_where_it_was_not_seen_or_hardly() -> None:
    assert on_cpu_share(OTHERS, FEWEST) is None
    assert on_cpu_share(Node("f", count=FEWEST - 1, running=1), FEWEST) is None
    assert on_cpu_share(Node("f", count=FEWEST, running=FEWEST + 1), FEWEST) == 1.0


def test_samples_add_up_whatever_the_paths_share() -> None:
    (trace,) = flame(WORKERS, "The workers", "").data
    below: dict[str, int] = {}
    for above, count in zip(trace["parents"], trace["values"], strict=True):
        below[above] = below.get(above, 0) + count
    whole = dict(zip(trace["ids"], trace["values"], strict=True))
    assert all(below[one] <= whole[one] for one in below if one), "Plotly refuses to draw anything else"


def test_boxes_and_height_are_bounded() -> None:
    many = [CallPath([f"f{at} (/a.py:{at})", f"g{at} (/a.py:{at})"], 1, 1) for at in range(5000)]
    assert len(flame(call_tree(CallPaths("trainer", 5000, many)), "x", "").data[0]["ids"]) == 1
    wide = [
        CallPath([f"f{at} (/a.py:{at})" for at in range(row, row + 128)], 1, 1)
        for row in range(0, 64_000, 128)
    ]
    assert len(flame(call_tree(CallPaths("trainer", 500, wide)), "x", "").data[0]["ids"]) <= MOST_BOXES
    assert flame(recursion(5000), "x", "").height < 1500


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_no_string_is_read_as_html(attack: str) -> None:
    paths = CallPaths("trainer", 9, [CallPath([attack, f"{attack} ({attack}:7)"], 9, 1)])
    (trace,) = flame(call_tree(paths), "The training thread", "").data
    said = "".join(trace["labels"]) + "".join(trace["hovertext"]).replace("<br>", "")
    assert "<" not in said
    assert said.isprintable()


def test_the_page_finds_what_it_sets_on_every_chart() -> None:
    assert flame(TRAINER, "The training thread", "").layout["hoverlabel"]["font"]
