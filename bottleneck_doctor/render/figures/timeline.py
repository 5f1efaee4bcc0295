"""The course of the run: small plots on one time axis, with what happened named and shaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...model.picture import Curve, Mark, Timeline
from .. import words
from ..page.figure import Figure
from .axes import HOVER, Clock, clock, heading, time_axis, value_axis

PLOT, TITLE, RIBBON, BOTTOM, TOP = 76, 30, 18, 44, 30  # heights in pixels
GROUPS = {
    "step": "step time",
    "wait": "data wait",
    "gpu": "GPU",
    "cpu": "cores busy",
    "io": "I/O",
    "pressure": "pressure",
    "memory": "memory",
}
# What a curve is called in its plot; others go by their names.
CURVES = {
    "step_time_s": "mean",
    "step_time_high_s": "slowest",
    "data_wait_share": "share of time",
    "gpu_busy_share": "busy",
    "job_cores": "this job",
    "other_cores": "others",
}
WHOLE_GROUPS = ("wait", "gpu")  # their shares are drawn against the whole
LINES = (("var(--line-1)", "solid"), ("var(--line-2)", "dot"), ("var(--line-3)", "dash"),
         ("var(--line-4)", "dashdot"))  # fmt: skip
STROKES = {"solid": "━━", "dot": "┅┅", "dash": "╍╍", "dashdot": "━·"}
MARKS = {
    "warm-up": "var(--shade)",
    "phase": "",  # a phase is the run itself: named, not shaded
    "evaluation": "var(--shade-evaluation)",
    "checkpoint": "var(--shade-checkpoint)",
    "instrument": "var(--shade-instrument)",
}
OTHER = "var(--shade)"
LEAST_TOP = 0.05  # a share that is always below 5 % is not drawn as if it were large
OUTLIER = 6.0  # a maximum above so many times the 95th percentile leaves the plot at its top
LONGEST_MARK, LONGEST_KIND = 60, 12


def timeline_figure(timeline: Timeline) -> Figure | None:
    """Small multiples of all curves that were measured, and a ribbon of marks; None without any."""
    groups = _groups(timeline.curves)
    if not groups or not timeline.duration_s > 0:
        return None
    told = clock(timeline.duration_s)
    kinds = list(dict.fromkeys(mark.kind for mark in timeline.marks))
    ribbon = RIBBON * len(kinds)
    inner = ribbon + len(groups) * (PLOT + TITLE)
    height = inner + TOP + BOTTOM
    data: list[dict[str, Any]] = []
    layout = _layout(timeline, told)
    if kinds:
        _draw_ribbon(data, layout, timeline.marks, kinds, told, 1 - ribbon / inner)
    for row, (group, curves) in enumerate(groups.items()):
        top = inner - ribbon - row * (PLOT + TITLE) - TITLE
        _draw_plot(data, layout, group, curves, told, ((top - PLOT) / inner, top / inner), row)
    layout["xaxis"]["anchor"] = _axis("y", len(groups) - 1)
    label = f"Timeline: {', '.join(map(group_words, groups))} over the run"
    return Figure(data, layout, height, label, moves="xaxis", extra={"unit": told.unit})


def _groups(curves: Iterable[Curve]) -> dict[str, list[Curve]]:
    """Curves with a value, by group: the known groups in their order, then others."""
    found: dict[str, list[Curve]] = {name: [] for name in GROUPS}
    for curve in curves:
        if any(words.drawn(value) is not None for value in curve.value):
            found.setdefault(curve.group, []).append(curve)
    return {name: some for name, some in found.items() if some}


def _layout(timeline: Timeline, told: Clock) -> dict[str, Any]:
    return {
        "xaxis": time_axis(timeline.duration_s * told.scale, f"{told.unit} since the run began"),
        "margin": {"l": 72, "r": 10, "t": TOP, "b": BOTTOM},
        "showlegend": False,
        "hovermode": "x",
        "hoversubplots": "axis",
        "hoverlabel": HOVER,
        "annotations": [],
        "shapes": _shades(timeline.marks, told),
        "barmode": "overlay",
    }


def _shades(marks: list[Mark], told: Clock) -> list[dict[str, Any]]:
    shaded = [mark for mark in marks if MARKS.get(mark.kind, OTHER)]
    borders = sorted({mark.begin_s for mark in marks if mark.kind == "phase"})[1:]
    return [
        {
            "type": "rect", "xref": "x", "yref": "paper", "layer": "below", "line": {"width": 0},
            "x0": words.drawn(mark.begin_s * told.scale), "x1": words.drawn(mark.end_s * told.scale),
            "y0": 0, "y1": 1, "fillcolor": MARKS.get(mark.kind, OTHER), "opacity": 0.13,
        }
        for mark in shaded
    ] + [
        {
            "type": "line", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
            "x0": words.drawn(begin_s * told.scale), "x1": words.drawn(begin_s * told.scale),
            "line": {"width": 1, "dash": "dot", "color": "var(--soft)"},
        }
        for begin_s in borders
    ]  # fmt: skip


def _draw_ribbon(
    data: list[dict[str, Any]],
    layout: dict[str, Any],
    marks: list[Mark],
    kinds: list[str],
    told: Clock,
    bottom: float,
) -> None:
    """One thin row for each kind of mark, above the plots."""
    layout["yaxis99"] = {
        "domain": [bottom, 1], "range": [len(kinds) - 0.5, -0.5], "fixedrange": True, "showgrid": False,
        "zeroline": False, "tickvals": list(range(len(kinds))),
        "ticktext": [words.in_chart(words.short(kind, LONGEST_KIND)) for kind in kinds],
        "tickfont": {"color": "var(--soft)", "size": 11},
    }  # fmt: skip
    for row, kind in enumerate(kinds):
        some = [mark for mark in marks if mark.kind == kind]
        data.append({
            "type": "bar", "orientation": "h", "yaxis": "y99", "y": [row] * len(some), "width": 0.6,
            "base": [words.drawn(mark.begin_s * told.scale) for mark in some],
            "x": [words.drawn((mark.end_s - mark.begin_s) * told.scale) for mark in some],
            "hovertext": [words.in_chart(mark_words(mark)) for mark in some], "hoverinfo": "text",
            "marker": {
                "color": MARKS.get(kind) or OTHER, "opacity": 0.45 if kind == "phase" else 0.85,
                "line": {"width": 1, "color": "var(--paper)"},
            },
        })  # fmt: skip


def mark_words(mark: Mark) -> str:
    """``evaluation: 1.3 s, from 12.1 s``, with its label."""
    kind = words.short(words.plain(mark.kind), LONGEST_MARK)
    label = f" ({words.short(words.plain(mark.label), LONGEST_MARK)})" if mark.label else ""
    return f"{kind}{label}: {words.seconds(mark.end_s - mark.begin_s)}, from {words.seconds(mark.begin_s)}"


def _draw_plot(
    data: list[dict[str, Any]],
    layout: dict[str, Any],
    group: str,
    curves: list[Curve],
    told: Clock,
    domain: tuple[float, float],
    row: int,
) -> None:
    """One plot: its axis, a heading that is its legend, and its curves."""
    top, beyond = _top(group, curves)
    layout[_axis("yaxis", row)] = value_axis(curves[0].name, top, domain)
    layout["annotations"].append(heading(_legend(group, curves, beyond), domain[1], 0.0))
    for place, curve in enumerate(curves):
        color, dash = LINES[place % len(LINES)]
        name = words.in_chart(curve_words(curve))
        data.append({
            "type": "scatter", "mode": "lines", "yaxis": _axis("y", row), "name": name,
            "x": [words.drawn(t * told.scale) for t in curve.t], "y": list(map(words.drawn, curve.value)),
            "text": [words.quantity(curve.name, value) for value in curve.value],
            "hovertemplate": f"{name} %{{text}}<extra></extra>",
            "line": {"color": color, "dash": dash, "width": 1.5}, "connectgaps": False,
        })  # fmt: skip


def curve_words(curve: Curve) -> str:
    """What a curve is called beside others of its plot."""
    name = curve.name.removesuffix("_share").removesuffix("_per_s").removesuffix("_s").replace("_", " ")
    return words.short(CURVES.get(curve.name, words.plain(name)), LONGEST_MARK)


def group_words(group: str) -> str:
    """What a plot is called."""
    return words.short(GROUPS.get(group, words.plain(group)), LONGEST_MARK)


def _legend(group: str, curves: list[Curve], beyond: str) -> str:
    signs = [
        f'<span style="color:{LINES[place % len(LINES)][0]}">{STROKES[LINES[place % len(LINES)][1]]}</span> '
        f"{words.in_chart(curve_words(curve))}"
        for place, curve in enumerate(curves)
    ]
    return f"<b>{words.in_chart(group_words(group))}</b>   {'  '.join(signs)}{beyond}"


def _top(group: str, curves: list[Curve]) -> tuple[float, str]:
    """Where the plot ends, and words about what lies beyond that."""
    known = (words.drawn(value) for curve in curves for value in curve.value)
    values = sorted(value for value in known if value is not None)
    if group in WHOLE_GROUPS and values[-1] <= 1:
        return 1.0, ""
    usual = values[int(0.95 * (len(values) - 1))]
    if usual > 0 and values[-1] > OUTLIER * usual:
        return 2 * usual, f"  (up to {words.quantity(curves[0].name, values[-1])})"
    least = LEAST_TOP if curves[0].name.endswith(("_share", "_fraction")) else 0.0
    return max(1.08 * values[-1], least) or 1.0, ""


def _axis(letter: str, row: int) -> str:
    return letter if row == 0 else f"{letter}{row + 1}"
