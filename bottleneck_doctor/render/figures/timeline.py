"""The course of the run: small plots on one time axis, with what happened named and shaded."""

from __future__ import annotations

from typing import Any

from ...model.picture import Curve, Mark, Timeline
from .. import words
from ..page.figure import Figure
from .axes import HOVER, TimeAxis, clock, heading, time_axis, value_axis
from .marks import ribbon, shades
from .plots import Plot, curve_words, flat, plot_words, plots_of

PLOT, TITLE, RIBBON, BOTTOM, TOP = 66, 30, 20, 44, 30  # heights in pixels
WHOLE = ("wait", "gpu")  # their shares are drawn against the whole
LINES = (("var(--line-1)", "solid"), ("var(--line-2)", "dot"), ("var(--line-3)", "dash"),
         ("var(--line-4)", "dashdot"))  # fmt: skip
STROKES = {"solid": "━━", "dot": "┅┅", "dash": "╍╍", "dashdot": "━·"}
SPIKE = {
    "showspikes": True, "spikemode": "across", "spikesnap": "cursor", "spikethickness": 1,
    "spikedash": "solid", "spikecolor": "var(--soft)",
}  # fmt: skip
LEAST_TOP = 0.05  # a share that is always below 5 % is not drawn as if it were large
FEW = 8  # points that are also dots: a line needs two
OUTLIER = 6.0  # a maximum above so many times the 95th percentile leaves the plot at its top


def timeline_figure(timeline: Timeline) -> Figure | None:
    """Small multiples of all curves that were measured, and a ribbon of marks; None without any."""
    plots = {plot: curves for plot, curves in plots_of(timeline).items() if not flat(curves)}
    if not plots or not words.drawn(timeline.duration_s) or timeline.duration_s < 0:
        return None
    marks = [mark for mark in timeline.marks if None not in map(words.drawn, (mark.begin_s, mark.end_s))]
    told = clock(timeline.duration_s)
    kinds = list(dict.fromkeys(mark.kind for mark in marks))
    above = RIBBON * len(kinds)
    inner = above + len(plots) * (PLOT + TITLE)
    height = inner + TOP + BOTTOM
    data, axis = ribbon(marks, kinds, told, 1 - above / inner)
    layout = _layout(timeline.duration_s, marks, told) | ({"yaxis99": axis} if kinds else {})
    for row, (plot, curves) in enumerate(plots.items()):
        top = inner - above - row * (PLOT + TITLE) - TITLE
        _draw_plot(data, layout, plot, curves, told, ((top - PLOT) / inner, top / inner), row)
    layout["xaxis"] |= {"anchor": _axis("y", len(plots) - 1), **SPIKE}
    label = f"Timeline: {', '.join(map(plot_words, plots))} over the run"
    return Figure(data, layout, height, label, moves="xaxis", extra={"unit": told.unit})


def _layout(duration_s: float, marks: list[Mark], told: TimeAxis) -> dict[str, Any]:
    return {
        "xaxis": time_axis(duration_s * told.scale, f"{told.unit} since the run began"),
        "margin": {"l": 72, "r": 10, "t": TOP, "b": BOTTOM},
        "showlegend": False,
        "hovermode": "x",
        "hoversubplots": "axis",
        "hoverlabel": HOVER,
        "annotations": [],
        "shapes": shades(marks, told),
        "barmode": "overlay",
        "uniformtext": {"mode": "hide", "minsize": 10},  # a name that does not fit is in the hover
    }


def _draw_plot(
    data: list[dict[str, Any]],
    layout: dict[str, Any],
    plot: Plot,
    curves: list[Curve],
    told: TimeAxis,
    domain: tuple[float, float],
    row: int,
) -> None:
    """One plot: its axis, a heading that is its legend, and its curves."""
    top, beyond = _top(plot, curves)
    layout[_axis("yaxis", row)] = value_axis(curves[0].name, top, domain)
    layout["annotations"].append(heading(_legend(plot, curves, beyond), domain[1], 0.0))
    title = words.in_chart(plot_words(plot))
    for place, curve in enumerate(curves):
        color, dash = LINES[place % len(LINES)]
        name = words.in_chart(curve_words(curve))
        when = f" at %{{x:.4~g}} {told.unit}" if (row, place) == (0, 0) else ""
        data.append({
            "type": "scatter", "mode": "lines+markers" if len(curve.t) <= FEW else "lines",
            "yaxis": _axis("y", row), "name": name,
            "x": [words.drawn(t * told.scale) for t in curve.t], "y": list(map(words.drawn, curve.value)),
            "text": [words.quantity(curve.name, value) for value in curve.value],
            "hovertemplate": f"{name or title} %{{text}}{when}<extra></extra>",
            "line": {"color": color, "dash": dash, "width": 1.5}, "connectgaps": False,
            "marker": {"color": color, "size": 4},
        })  # fmt: skip


def _legend(plot: Plot, curves: list[Curve], beyond: str) -> str:
    signs = [
        f'<span style="color:{LINES[place % len(LINES)][0]}">{STROKES[LINES[place % len(LINES)][1]]}</span> '
        f"{words.in_chart(curve_words(curve))}"
        for place, curve in enumerate(curves)
    ]
    signs = signs if any(map(curve_words, curves)) else []
    return "   ".join([f"<b>{words.in_chart(plot_words(plot))}</b>", *signs]) + beyond


def _top(plot: Plot, curves: list[Curve]) -> tuple[float, str]:
    """Where the plot ends, and words about what lies beyond that."""
    known = (words.drawn(value) for curve in curves for value in curve.value)
    values = sorted(value for value in known if value is not None)
    if plot[0] in WHOLE and values[-1] <= 1:
        return 1.0, ""
    usual = values[int(0.95 * (len(values) - 1))]
    if usual > 0 and values[-1] > OUTLIER * usual:
        return 2 * usual, f"  (up to {words.quantity(curves[0].name, values[-1])})"
    least = LEAST_TOP if curves[0].name.endswith(("_share", "_fraction")) else 0.0
    return max(1.08 * values[-1], least) or 1.0, ""


def _axis(letter: str, row: int) -> str:
    return letter if row == 0 else f"{letter}{row + 1}"
