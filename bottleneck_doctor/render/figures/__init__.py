"""Charts for Plotly, built as plain data; the page defines the colours. Here: what a chart is, and its axes.

Ticks are round numbers of a quantity in words; a time axis has the unit that fits the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .. import words


@dataclass(frozen=True)
class Figure:
    """What ``data-figure="NAME"`` shows.

    ``data`` and ``layout`` are Plotly's; colours in them are ``var(--name)`` as page.css defines them, so
    that one figure serves light, dark and print. Foreign strings in them must have gone through
    ``words.in_chart``. ``height`` is in pixels; the width is the page's. ``label`` is for screen readers.
    ``moves`` is the axis that keys and buttons pan and zoom, within the range that the layout gives it; ""
    for a fixed chart. ``sort`` names a script of the page that adds to it (``stacks``).
    """

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int
    label: str
    moves: str = ""
    sort: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


STEPS = (1.0, 2.0, 5.0, 10.0)
MOST_TICKS = 4
HEADING_X, HEADING_Y = -66, 5  # pixels: above the tick labels, where a phone has room


class TimeAxis(NamedTuple):
    """How instants are shown: seconds times ``scale``, in ``unit``."""

    scale: float
    unit: str


def clock(length_s: float) -> TimeAxis:
    """The unit in which a stretch of so many seconds has numbers of one to three digits."""
    if length_s < 1:
        return TimeAxis(1e3, "ms")
    if length_s < 300:
        return TimeAxis(1.0, "s")
    return TimeAxis(1 / 60, "min") if length_s < 3 * 3600 else TimeAxis(1 / 3600, "h")


def ticks(name: str, top: float) -> tuple[list[float], list[str]]:
    """Round values from 0 to at most ``top`` of a metric, and each in words."""
    if not top > 0:
        return [0.0], [words.quantity(name, 0.0)]
    unit = 1024.0 ** max(0, int(math.log(top, 1024))) if "bytes" in name else 1.0
    least = top / unit / MOST_TICKS
    power = 10.0 ** math.floor(math.log10(least))
    step = next(one * power for one in STEPS if one * power >= least * 0.999) * unit
    values = [step * place for place in range(int(top / step * 1.001) + 1)]
    return values, [words.quantity(name, value) for value in values]


def value_axis(name: str, top: float, domain: tuple[float, float]) -> dict[str, Any]:
    """A vertical axis from 0 to ``top`` that stands still, its ticks in words."""
    values, texts = ticks(name, top)
    return {
        "domain": list(domain), "range": [0, top], "fixedrange": True, "tickvals": values, "ticktext": texts,
        "gridcolor": "var(--grid)", "zerolinecolor": "var(--line)", **TICKS,
    }  # fmt: skip


def time_axis(length: float, title: str) -> dict[str, Any]:
    """The horizontal axis from 0 to ``length``, which can be zoomed but not left."""
    return {
        "range": [0, length], "minallowed": 0, "maxallowed": length,
        "title": {"text": title, "font": {"size": 12, "color": "var(--soft)"}, "standoff": 8},
        **TICKS, "nticks": 8, "gridcolor": "var(--grid)", "zeroline": False, "showline": True,
        "linecolor": "var(--line)",
    }  # fmt: skip


def heading(text: str, y: float) -> dict[str, Any]:
    """A line of text above a plot, at a height from 0 to 1 of the page."""
    return {
        "text": text, "x": 0.0, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left",
        "yanchor": "bottom", "xshift": HEADING_X, "yshift": HEADING_Y, "showarrow": False, "align": "left",
        "font": {"size": 12, "color": "var(--ink)"},
    }  # fmt: skip


# The ticks themselves are blank space between labels and plot.
TICKS = {
    "tickfont": {"color": "var(--soft)", "size": 11}, "ticks": "outside", "ticklen": 4,
    "tickcolor": "rgba(0,0,0,0)",
}  # fmt: skip
HOVER = {
    "bgcolor": "var(--paper)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)", "size": 12},
    "align": "left",
}  # fmt: skip
