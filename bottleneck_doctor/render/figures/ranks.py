"""The map of ranks over time: the darker, the later than the median rank."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...model.picture import RankMap
from .. import words
from .axes import HOVER, TICKS, Figure, clock

ROW, AROUND = 18, 96  # pixels
LEAST = 1.5  # times the median rank, the least that the darkest colour stands for
LONGEST_NAME = 40


def ranks_figure(ranks: RankMap) -> Figure | None:
    """One row a rank, the first on top; None where nothing is comparable."""
    known = [value for row in ranks.ratio for value in row if words.drawn(value) is not None and value]
    if not known:
        return None
    names = [words.in_chart(words.short(name, LONGEST_NAME)) for name in ranks.names]
    darkest = max(LEAST, *known)
    axis = clock(ranks.ends_s[-1])
    hovers = [
        [f"{name}<br>steps {begin} to {end}: {_told(value)}"
         for (begin, end), value in zip(pairwise(ranks.edges), row, strict=True)]
        for name, row in zip(names, ranks.ratio, strict=True)
    ]  # fmt: skip
    data: dict[str, Any] = {
        "type": "heatmap", "x": [end * axis.scale for end in ranks.ends_s],
        "y": list(range(len(names))),
        "z": [list(map(words.drawn, row)) for row in ranks.ratio], "zmin": 1, "zmax": darkest,
        "colorscale": [[0, "var(--accent-soft)"], [1, "var(--wait)"]], "xgap": 0, "ygap": 1,
        "hovertext": hovers, "hoverinfo": "text", "showscale": True,
        "colorbar": {"tickvals": [1, darkest], "ticktext": ["the median", words.ratio(darkest)],
                     "thickness": 10, "outlinewidth": 0, "tickfont": TICKS["tickfont"]},
    }  # fmt: skip
    since = {"text": f"{axis.unit} since the run began", "font": {"size": 12, "color": "var(--soft)"}}
    layout: dict[str, Any] = {
        "xaxis": {"title": since, **TICKS,
                  "fixedrange": True, "showgrid": False, "zeroline": False},
        "yaxis": {"tickvals": list(range(len(names))), "ticktext": names, "autorange": "reversed",
                  "fixedrange": True, "showgrid": False, "zeroline": False, "automargin": True, **TICKS},
        "margin": {"l": 66, "r": 10, "t": 12, "b": 44}, "hovermode": "closest", "hoverlabel": HOVER,
        "dragmode": False,
    }  # fmt: skip
    return Figure([data], layout, AROUND + ROW * len(names), "Ranks: how much longer than the median rank")


def _told(value: float | None) -> str:
    return "set aside" if words.drawn(value) is None or value is None else f"{words.ratio(value)} the median"
