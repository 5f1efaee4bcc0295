"""The lanes: pieces of one batch know each other, and every kind has a word and a height."""

from __future__ import annotations

from dataclasses import replace

from bottleneck_doctor.model.picture import LOOP_PIECES, WORKER_PIECES, Lanes, Pieces
from bottleneck_doctor.render.figures.lanes import KINDS, lanes_figure, legend
from bottleneck_doctor.render.page import HERE
from tests.render.scenes import lanes


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
        ("the loop", ["waits for a batch", "not looked at"]),
        ("a worker", ["not looked at", "on the CPU"]),
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
