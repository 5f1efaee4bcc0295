"""What the map of ranks draws."""

from __future__ import annotations

from bottleneck_doctor.model.picture import RankMap
from bottleneck_doctor.render.figures.ranks import ranks_figure
from bottleneck_doctor.render.html import ranks_table, ranks_words

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
