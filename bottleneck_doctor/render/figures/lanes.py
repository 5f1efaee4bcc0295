"""Lanes on one time axis: the training loop on top, each worker below, and their waits for each other."""

from __future__ import annotations

from typing import Any

from ...model.picture import Lanes
from .. import words
from . import HOVER, TICKS, Figure, clock, time_axis

LANE, NARROWEST, SCREEN, TOP, BOTTOM = 28, 12, 560, 34, 44  # heights in pixels
TALL, HIGH, LOW, THIN = 0.82, 0.62, 0.42, 0.12  # of a lane
LONGEST_KIND = 40
# Label and height of each kind of piece: work is tall, waiting is low, the rest is thin.
LOOP = {
    "wait": ("waits for a batch", LOW),
    "compute": ("forward and own code", TALL),
    "backward": ("backward", TALL),
    "optimizer": ("optimizer", TALL),
    "copy": ("copies to the device", TALL),
    "sync": ("waits for the device", LOW),
    "exchange": ("waits for other ranks", LOW),
    "checkpoint": ("checkpoint", HIGH),
    "logging": ("logging", HIGH),
    "collect": ("garbage collection", HIGH),
    "evaluation": ("evaluation", HIGH),
    "unseen": ("not sampled", THIN),
}
WORKER = {
    "cpu": ("on the CPU", TALL),
    "storage": ("blocked on storage", LOW),
    "network": ("blocked on the network", LOW),
    "blocked": ("blocked on something else", LOW),
    "queue": ("ready, waits for a core", LOW),
    "collate": ("collates", TALL),
    "hand over": ("hands over", LOW),
    "idle": ("has nothing to do", THIN),
}
KINDS = {**LOOP, **WORKER}


def color(kind: str) -> str:
    """The colour of a kind of piece, as page.css names it."""
    return f"var(--{kind.replace(' ', '-')})" if kind in KINDS else "var(--unseen)"


def called(kind: str) -> tuple[str, float]:
    """The label of a kind of piece, and its height."""
    return KINDS.get(kind, (words.short(words.plain(kind), LONGEST_KIND), LOW))


def kinds_in(lanes: Lanes) -> list[str]:
    """The kinds that occur, in the order in which they are explained."""
    found = set(lanes.pieces.what)
    return [kind for kind in KINDS if kind in found] + sorted(found - set(KINDS))


def legend(lanes: Lanes) -> list[tuple[str, list[tuple[str, str, float]]]]:
    """The kinds in the loop's lane and in the workers', with label, colour and height (0 to 1)."""
    found: dict[str, set[str]] = {"the loop": set(), "a worker": set()}
    for lane, what in zip(lanes.pieces.lane, lanes.pieces.what, strict=True):
        found["a worker" if lane else "the loop"].add(what)
    return [
        (whose, [(called(kind)[0], color(kind), called(kind)[1]) for kind in kinds_in(lanes) if kind in some])
        for whose, some in found.items()
        if some
    ]


def lane_names(lanes: Lanes) -> list[str]:
    """The loop, then the workers by their numbers."""
    return ["loop", *(f"worker {words.count(number)}" for number in lanes.workers)]


def lanes_figure(lanes: Lanes) -> Figure:
    """A Gantt chart of the steps; pieces of one batch know each other by ``customdata``."""
    time, names = clock(lanes.end_s - lanes.begin_s), lane_names(lanes)
    since = f"{time.unit}, from {words.seconds(lanes.begin_s)} into the run"
    layout: dict[str, Any] = {
        "xaxis": time_axis((lanes.end_s - lanes.begin_s) * time.scale, since),
        "yaxis": {
            "range": [len(names) - 0.5, -0.5], "fixedrange": True, "showgrid": False, "zeroline": False,
            "tickvals": list(range(len(names))), "ticktext": names,
            **TICKS, "tickfont": {"color": "var(--ink)", "size": 11},
        },
        "barmode": "overlay", "showlegend": False, "hovermode": "closest", "hoverlabel": HOVER,
        "margin": {"l": 72, "r": 10, "t": TOP, "b": BOTTOM},
    }  # fmt: skip
    data = [_trace(lanes, kind, time.scale, names) for kind in kinds_in(lanes)]
    height = max(NARROWEST, min(LANE, SCREEN // len(names))) * len(names) + TOP + BOTTOM
    label = f"Lanes: what the loop and {words.counted(len(lanes.workers), 'worker')} did in some steps"
    return Figure(data, layout, height, label, moves="xaxis", sort="lanes", extra={"unit": time.unit})


def _trace(lanes: Lanes, kind: str, scale: float, names: list[str]) -> dict[str, Any]:
    """All pieces of one kind. The loop's waiting is hatched, to be visible with or without colours."""
    hatched = {"shape": "/", "size": 5, "solidity": 0.35, "bgcolor": color(kind), "fgcolor": "var(--paper)"}
    pieces = lanes.pieces
    rows = [row for row, what in enumerate(pieces.what) if what == kind]
    name, tall = called(kind)
    return {
        "type": "bar", "orientation": "h", "name": words.in_chart(name), "width": tall,
        "y": [pieces.lane[row] for row in rows],
        "base": [words.drawn((pieces.begin_s[row] - lanes.begin_s) * scale) for row in rows],
        "x": [words.drawn(pieces.length_s[row] * scale) for row in rows],
        "customdata": [pieces.batch[row] for row in rows],
        "hovertext": [_said(lanes, row, name, names) for row in rows], "hoverinfo": "text",
        "marker": {"color": color(kind), "line": {"width": 0}, "pattern": hatched if kind == "wait" else {}},
    }  # fmt: skip


def _said(lanes: Lanes, row: int, name: str, names: list[str]) -> str:
    pieces = lanes.pieces
    lane, batch = pieces.lane[row], pieces.batch[row]
    who = names[lane] if 0 <= lane < len(names) else ""
    about = f" · batch {words.count(batch)}" if batch is not None else ""
    begin = words.seconds(pieces.begin_s[row] - lanes.begin_s)
    return (
        f"<b>{who}</b> {words.in_chart(name)}{about}<br>{words.seconds(pieces.length_s[row])}, from {begin}"
    )
