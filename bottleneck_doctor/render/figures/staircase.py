"""The staircase of predicted speedups: each remedy's own range, and what all up to it bring together."""

from __future__ import annotations

from typing import Any

from ...model.report import Remedy, Speedup
from .. import words
from . import HOVER, TICKS, Figure

HEIGHT = 260
MOST = 16  # stairs that remain distinct on a phone's screen
MOST_NAMED = 6  # stairs that have room for numbers there
HIGHEST = 1e4  # a speedup above this is drawn as this
STEPS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3)
LONGEST_TITLE = 60


def stairs_of(remedies: list[Remedy]) -> list[Remedy]:
    """The remedies that are drawn: those that speed up, numbered as in the list next to the chart."""
    return [remedy for remedy in remedies if remedy.predicted_speedup.reach >= 1][:MOST]


def staircase_figure(remedies: list[Remedy]) -> Figure | None:
    """Columns in the order of the ranked list; None if no remedy speeds the training up."""
    shown = stairs_of(remedies)
    if not shown:
        return None
    places, named = list(range(len(shown) + 1)), len(shown) <= MOST_NAMED
    reached = [1.0]  # by all remedies up to each; one that adds nothing leaves it as it was
    for remedy in shown:
        reached.append(remedy.combined_speedup if remedy.combined_speedup is not None else reached[-1])
    ranges = [remedy.predicted_speedup for remedy in shown]
    layout: dict[str, Any] = {
        "xaxis": {
            "tickvals": places, "ticktext": ["now", *(str(rank) for rank in places[1:])],
            "range": [-0.6, len(shown) + 0.6], "fixedrange": True, "showgrid": False, "zeroline": False,
            "title": {"text": "remedies, in their order", "font": {"size": 12, "color": "var(--soft)"}},
            **TICKS, "showline": True, "linecolor": "var(--line)",
        },
        "yaxis": _speedups([value for one in ranges for value in (one.low, one.high)] + reached),
        "margin": {"l": 48, "r": 26, "t": 12, "b": 44}, "showlegend": False, "hovermode": "closest",
        "hoverlabel": HOVER, "dragmode": False,
    }  # fmt: skip
    data = [_spans(ranges), _dots(shown, reached if named else [])]
    if any(remedy.combined_speedup is not None for remedy in shown):
        data = [_stairs(reached), *([_heights(reached)] if named else []), *data]
    return Figure(data, layout, HEIGHT, "Staircase: predicted speedup of each remedy, and of all together")


def _speedups(values: list[float]) -> dict[str, Any]:
    """The vertical axis, on which all of these have room."""
    known = [min(value, HIGHEST) for value in map(words.drawn, values) if value is not None]
    low, high = min([1.0, *known]), max([1.1, *known])
    low, high = low - 0.06 * (high - low), high + 0.14 * (high - low)
    step = next(one for one in STEPS if (high - low) / one <= 6)
    ticks = [1 + step * place for place in range(int((low - 1) / step), int((high - 1) / step) + 1)]
    return {
        "range": [low, high], "fixedrange": True, "tickvals": ticks, "zeroline": False,
        "ticktext": [words.ratio(value) for value in ticks], "gridcolor": "var(--grid)", **TICKS,
    }  # fmt: skip


def _stairs(reached: list[float]) -> dict[str, Any]:
    """What is reached with all remedies up to each."""
    hovers = [f"together, up to {place}: {words.ratio(value)}" for place, value in enumerate(reached)]
    heights = list(map(words.drawn, reached))
    return {
        "type": "scatter", "mode": "lines", "x": [place - 0.5 for place in range(len(reached) + 1)],
        "y": [*heights, heights[-1]], "fill": "tozeroy", "fillcolor": "var(--accent-soft)",
        "line": {"shape": "hv", "width": 2.5, "color": "var(--accent)"},
        "hovertext": ["now", *hovers[1:], hovers[-1]], "hoverinfo": "text",
    }  # fmt: skip


def _heights(reached: list[float]) -> dict[str, Any]:
    """How far each stair that rises leads, where it begins."""
    rises = [place for place in range(1, len(reached)) if reached[place] != reached[place - 1]]
    return {
        "type": "scatter", "mode": "text", "x": [place - 0.5 for place in rises],
        "y": [words.drawn(reached[place]) for place in rises], "hoverinfo": "skip",
        "text": [words.ratio(reached[place]) for place in rises], "textposition": "top right",
        "textfont": {"color": "var(--accent)", "size": 12}, "cliponaxis": False,
    }  # fmt: skip


def _spans(ranges: list[Speedup]) -> dict[str, Any]:
    """One vertical line for each range; None lifts the pen."""
    x: list[int | None] = []
    y: list[float | None] = []
    for rank, one in enumerate(ranges, start=1):
        x += [rank, rank, None]
        y += [words.drawn(one.low), words.drawn(one.high), None]
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "hoverinfo": "skip",
        "line": {"width": 2, "color": "var(--line-2)"},
    }  # fmt: skip


def _dots(shown: list[Remedy], reached: list[float]) -> dict[str, Any]:
    """What each remedy would bring alone; labelled if its stair's number differs."""
    speedups = [remedy.predicted_speedup for remedy in shown]
    texts = [words.promised(one) for one in speedups]
    spans = [f" ({words.promised_range(one)})" if one.likely is not None else "" for one in speedups]
    hovers = [
        f"<b>{rank}</b> {words.in_chart(words.short(remedy.title, LONGEST_TITLE))}<br>alone: {likely}{span}"
        for rank, (remedy, likely, span) in enumerate(zip(shown, texts, spans, strict=True), start=1)
    ]
    return {
        "type": "scatter", "mode": "markers+text" if reached else "markers",
        "x": list(range(1, len(shown) + 1)),
        "y": [words.drawn(one.reach) for one in speedups],
        "marker": {"size": 9, "color": "var(--line-2)", "symbol": "diamond"},
        "text": [
            "" if one == words.ratio(up) else f"  {one}" for one, up in zip(texts, reached[1:], strict=False)
        ],
        "textposition": "middle right",
        "textfont": {"color": "var(--ink)", "size": 12}, "hovertext": hovers, "hoverinfo": "text",
        "cliponaxis": False,
    }  # fmt: skip
