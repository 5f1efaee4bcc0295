"""The course of the run: small plots on one time axis, with its phases and events named and shaded; and the
map of its ranks over time: the darker, the later than the median rank."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...model.picture import Curve, Mark, RankMap, Timeline
from .. import words
from . import HOVER, TICKS, Figure, TimeAxis, clock, heading, time_axis, value_axis

COLORS = {"evaluation": "var(--evaluation)", "checkpoint": "var(--checkpoint)"}
OTHER = "var(--soft)"
LONGEST_MARK, LONGEST_KIND = 60, 12
AXIS = "y99"  # beyond those of the plots


def shades(marks: list[Mark], time: TimeAxis) -> list[dict[str, Any]]:
    """One shape for each kind, whatever its number of marks; a dotted line where a phase begins."""
    strips: dict[str, str] = {}
    lines, first = "", min((mark.begin_s for mark in marks if mark.kind == "phase"), default=0.0)
    for mark in marks:
        begin, end = (words.drawn(t * time.scale) for t in (mark.begin_s, mark.end_s))
        if mark.kind != "phase":
            strips[mark.kind] = strips.get(mark.kind, "") + f"M{begin},0V1H{end}V0Z"
        elif mark.kind == "phase" and mark.begin_s > first:
            lines += f"M{begin},0V1"
    placed = {"type": "path", "xref": "x", "yref": "paper", "layer": "below"}
    dotted = {**placed, "path": lines, "line": {"width": 1, "dash": "dot", "color": "var(--soft)"}}
    shaded = [
        {**placed, "path": path, "line": {"width": 0}, "fillcolor": COLORS.get(kind, OTHER), "opacity": 0.13}
        for kind, path in strips.items()
    ]
    return [*shaded, dotted] if lines else shaded


def ribbon(
    marks: list[Mark], kinds: list[str], time: TimeAxis, bottom: float
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One thin row for each kind of mark, above the plots, and their axis; ``bottom`` is where it begins."""
    axis = {
        "domain": [bottom, 1], "range": [len(kinds) - 0.5, -0.5], "fixedrange": True, "showgrid": False,
        "zeroline": False, "tickvals": list(range(len(kinds))), **TICKS,
        "ticktext": [words.in_chart(words.short(kind, LONGEST_KIND)) for kind in kinds],
    }  # fmt: skip
    data: list[dict[str, Any]] = []
    for row, kind in enumerate(kinds):
        some = [mark for mark in marks if mark.kind == kind]
        data.append({
            "type": "bar", "orientation": "h", "yaxis": AXIS, "y": [row] * len(some),
            "width": 1 if kind == "phase" else 0.6,
            "base": [words.drawn(mark.begin_s * time.scale) for mark in some],
            "x": [words.drawn((mark.end_s - mark.begin_s) * time.scale) for mark in some],
            "hovertext": [words.in_chart(mark_words(mark)) for mark in some], "hoverinfo": "text",
            "text": [words.in_chart(words.short(mark.label, LONGEST_MARK)) for mark in some],
            "textposition": "inside", "insidetextanchor": "start", "textangle": 0,
            "textfont": {"size": 10, "color": "var(--ink)"},
            "marker": {
                "color": COLORS.get(kind, OTHER), "opacity": 0.3 if kind == "phase" else 0.85,
                # What is narrower than a pixel still shows, at any zoom.
                "line": {"width": 1.5, "color": COLORS.get(kind, OTHER)},
            },
        })  # fmt: skip
    return data, axis


def mark_words(mark: Mark) -> str:
    """``evaluation: 1.3 s, from 12.1 s``, with its label."""
    kind = words.short(words.plain(mark.kind), LONGEST_MARK)
    label = f" ({words.short(words.plain(mark.label), LONGEST_MARK)})" if mark.label else ""
    return f"{kind}{label}: {words.seconds(mark.end_s - mark.begin_s)}, from {words.seconds(mark.begin_s)}"


# Plots by the group of their curves and what these are measured in, in the order in which they are drawn.
PLOTS = {
    ("step", "s"): "step time",
    ("wait", "share"): "data wait",
    ("gpu", "share"): "GPU",
    ("cpu", "cores"): "cores busy",
    ("cpu", "share"): "workers busy",
    ("io", "bytes_per_s"): "reads",
    ("io", "share"): "processors idle for disks",
    ("pressure", "share"): "stalled for",
    ("memory", "bytes"): "memory",
}
UNITS = ("bytes_per_s", "per_s", "share", "fraction", "bytes", "cores", "s")
# What a curve is called in its plot, nothing where the plot says it all; others go by their names.
CURVES = {
    "step_time_s": "mean",
    "step_time_high_s": "slowest",
    "data_wait_share": "",
    "gpu_busy_share": "",
    "worker_busy_share": "",
    "iowait_share": "",
    "job_cores": "this job",
    "other_cores": "others",
    "job_read_bytes_per_s": "this job",
    "disk_read_bytes_per_s": "disks",
    "pressure_cpu_share": "CPU",
    "pressure_io_share": "I/O",
    "pressure_memory_share": "memory",
    "job_rss_bytes": "this job",
}
LONGEST_NAME = 60
FEWEST = 8  # values of a curve, as many as the steps from which a run is judged
Plot = tuple[str, str]  # the group of its curves, and what they are measured in


def plots_of(timeline: Timeline) -> dict[Plot, list[Curve]]:
    """Curves of enough values, by plot: the known plots in their order, then others; none that is zero."""
    found: dict[Plot, list[Curve]] = {plot: [] for plot in PLOTS}
    for curve in timeline.curves:
        if sum(words.drawn(value) is not None for value in curve.value) >= FEWEST:
            found.setdefault((curve.group, unit_of(curve.name)), []).append(curve)
    return {
        plot: some for plot, some in found.items() if any(words.drawn(v) for one in some for v in one.value)
    }


def unit_of(name: str) -> str:
    """The unit at the end of a curve's name; "" if it has none."""
    return next((unit for unit in UNITS if name.endswith(f"_{unit}")), "")


def curve_words(curve: Curve) -> str:
    """A curve's label among those of its plot; "" where the plot's title suffices."""
    if curve.name in CURVES:
        return CURVES[curve.name]
    name = curve.name.removesuffix(f"_{unit_of(curve.name)}").replace("_", " ")
    return words.short(words.plain(name), LONGEST_NAME)


def plot_words(plot: Plot) -> str:
    """What a plot is called."""
    return words.short(PLOTS.get(plot, words.plain(plot[0].replace("_", " "))), LONGEST_NAME)


PLOT, TITLE, RIBBON, BOTTOM, TOP = 66, 30, 20, 44, 30  # heights in pixels
WHOLE = ("wait", "gpu")  # their shares are drawn against the whole
# Colours mean parts of a step; other curves differ by their strokes.
LINES = (("var(--ink)", "solid"), ("var(--soft)", "dot"), ("var(--soft)", "dash"), ("var(--ink)", "dashdot"))
MEANT = {"wait": "var(--wait)", "gpu": "var(--compute)"}
STROKES = {"solid": "━━", "dot": "┅┅", "dash": "╍╍", "dashdot": "━·"}
SPIKE = {
    "showspikes": True, "spikemode": "across", "spikesnap": "cursor", "spikethickness": 1,
    "spikedash": "solid", "spikecolor": "var(--soft)",
}  # fmt: skip
LEAST_TOP = 0.05  # a share that is always below 5 % is not drawn as if it were large
OUTLIER = 6.0  # a maximum above so many times the 95th percentile leaves the plot at its top


def timeline_figure(timeline: Timeline) -> Figure | None:
    """Small multiples of all curves that were measured, and a ribbon of marks; None without any."""
    plots = plots_of(timeline)
    if not plots or not words.drawn(timeline.duration_s) or timeline.duration_s < 0:
        return None
    marks = [mark for mark in timeline.marks if None not in map(words.drawn, (mark.begin_s, mark.end_s))]
    time = clock(timeline.duration_s)
    kinds = list(dict.fromkeys(mark.kind for mark in marks))
    above = RIBBON * len(kinds)
    inner = above + len(plots) * (PLOT + TITLE)
    height = inner + TOP + BOTTOM
    data, axis = ribbon(marks, kinds, time, 1 - above / inner)
    layout: dict[str, Any] = {
        "xaxis": time_axis(timeline.duration_s * time.scale, f"{time.unit} since the run began"),
        "margin": {"l": 72, "r": 10, "t": TOP, "b": BOTTOM}, "showlegend": False, "hovermode": "x",
        "hoversubplots": "axis", "hoverlabel": HOVER, "annotations": [], "shapes": shades(marks, time),
        "barmode": "overlay",
        "uniformtext": {"mode": "hide", "minsize": 10},  # a name that does not fit is in the hover
        **({"yaxis99": axis} if kinds else {}),
    }  # fmt: skip
    for row, (plot, curves) in enumerate(plots.items()):
        top = inner - above - row * (PLOT + TITLE) - TITLE
        _draw_plot(data, layout, plot, curves, time, ((top - PLOT) / inner, top / inner), row)
    layout["xaxis"] |= {"anchor": _axis("y", len(plots) - 1), **SPIKE}
    label = f"Timeline: {', '.join(map(plot_words, plots))} over the run"
    return Figure(data, layout, height, label, moves="xaxis", extra={"unit": time.unit})


def _draw_plot(
    data: list[dict[str, Any]],
    layout: dict[str, Any],
    plot: Plot,
    curves: list[Curve],
    time: TimeAxis,
    domain: tuple[float, float],
    row: int,
) -> None:
    """One plot: its axis, a heading that is its legend, and its curves."""
    top, beyond = _top(plot, curves)
    layout[_axis("yaxis", row)] = value_axis(curves[0].name, top, domain)
    layout["annotations"].append(heading(_legend(plot, curves, beyond), domain[1]))
    title = words.in_chart(plot_words(plot))
    for place, curve in enumerate(curves):
        color, dash = LINES[place % len(LINES)]
        name = words.in_chart(curve_words(curve))
        when = f" at %{{x:.4~g}} {time.unit}" if (row, place) == (0, 0) else ""
        data.append({
            "type": "scatter", "mode": "lines",
            "yaxis": _axis("y", row), "name": name,
            "x": [words.drawn(t * time.scale) for t in curve.t], "y": list(map(words.drawn, curve.value)),
            "text": [words.quantity(curve.name, value) for value in curve.value],
            "hovertemplate": f"{name or title} %{{text}}{when}<extra></extra>",
            "line": {"color": MEANT.get(plot[0], color), "dash": dash, "width": 1.5}, "connectgaps": False,
        })  # fmt: skip


def _legend(plot: Plot, curves: list[Curve], beyond: str) -> str:
    signs = []
    for place, curve in enumerate(curves if any(map(curve_words, curves)) else []):
        color, dash = LINES[place % len(LINES)]
        name = words.in_chart(curve_words(curve))
        signs.append(f'<span style="color:{color}">{STROKES[dash]}</span> {name}')
    return "   ".join([f"<b>{words.in_chart(plot_words(plot))}</b>", *signs]) + beyond


def _top(plot: Plot, curves: list[Curve]) -> tuple[float, str]:
    """Where the plot ends, and a text about the values beyond that."""
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


ROW, AROUND = 18, 96  # pixels
LEAST = 1.5  # times the median rank, the least that the darkest colour stands for
LONGEST_RANK = 40


def ranks_figure(ranks: RankMap) -> Figure | None:
    """One row a rank, the first on top; None where nothing is comparable."""
    known = [value for row in ranks.ratio for value in row if words.drawn(value) is not None and value]
    if not known:
        return None
    names = [words.in_chart(words.short(name, LONGEST_RANK)) for name in ranks.names]
    darkest = max(LEAST, *known)
    axis = clock(ranks.ends_s[-1])
    cells = [
        (row, place, value)
        for row, ratios in enumerate(ranks.ratio)
        for place, value in enumerate(map(words.drawn, ratios))
        if value is not None
    ]
    ends = [end * axis.scale for end in ranks.ends_s]
    steps = list(pairwise(ranks.edges))
    data: dict[str, Any] = {
        "type": "bar", "orientation": "h", "width": 0.94, "y": [row for row, _, _ in cells],
        "base": [ends[place] for _, place, _ in cells],
        "x": [ends[place + 1] - ends[place] for _, place, _ in cells],
        "hovertext": [
            f"{names[row]}<br>steps {steps[place][0]} to {steps[place][1]}: {words.ratio(value)} the median"
            for row, place, value in cells
        ],
        "hoverinfo": "text",
        "marker": {
            "color": [value for _, _, value in cells], "cmin": 1, "cmax": darkest, "showscale": True,
            "colorscale": [[0, "var(--grid)"], [1, "var(--exchange)"]], "line": {"width": 0},
            "colorbar": {"tickvals": [1, darkest], "ticktext": ["the median", words.ratio(darkest)],
                         "thickness": 10, "outlinewidth": 0, "tickfont": TICKS["tickfont"]},
        },
    }  # fmt: skip
    since = {"text": f"{axis.unit} since the run began", "font": {"size": 12, "color": "var(--soft)"}}
    still = {"fixedrange": True, "showgrid": False, "zeroline": False, **TICKS}
    layout: dict[str, Any] = {
        "xaxis": {"title": since, "range": [ends[0], ends[-1]], **still},
        "yaxis": {"tickvals": list(range(len(names))), "ticktext": names, "automargin": True,
                  "range": [len(names) - 0.5, -0.5], **still},
        "margin": {"l": 66, "r": 10, "t": 12, "b": 44}, "hovermode": "closest", "hoverlabel": HOVER,
        "barmode": "overlay", "dragmode": False,
    }  # fmt: skip
    return Figure([data], layout, AROUND + ROW * len(names), "Ranks: how much longer than the median rank")
