"""What happened when: a ribbon above the plots that names it, and shades that fall through them."""

from __future__ import annotations

from typing import Any

from ...model.picture import Mark
from .. import words
from .axes import TICKS, TimeAxis

COLORS = {
    "warm-up": "var(--shade)",
    "evaluation": "var(--shade-evaluation)",
    "checkpoint": "var(--shade-checkpoint)",
    "instrument": "var(--shade-instrument)",
    "lanes": "var(--accent)",
}
UNSHADED = ("phase", "lanes")  # the run itself, and what is drawn elsewhere: named only
OTHER = "var(--shade)"
LONGEST_MARK, LONGEST_KIND = 60, 12
AXIS = "y99"  # beyond those of the plots


def shades(marks: list[Mark], told: TimeAxis) -> list[dict[str, Any]]:
    """One shape for each kind, whatever its number of marks; a dotted line where a phase begins."""
    strips: dict[str, str] = {}
    lines, first = "", min((mark.begin_s for mark in marks if mark.kind == "phase"), default=0.0)
    for mark in marks:
        begin, end = (words.drawn(t * told.scale) for t in (mark.begin_s, mark.end_s))
        if mark.kind not in UNSHADED:
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
    marks: list[Mark], kinds: list[str], told: TimeAxis, bottom: float
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
            "base": [words.drawn(mark.begin_s * told.scale) for mark in some],
            "x": [words.drawn((mark.end_s - mark.begin_s) * told.scale) for mark in some],
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
