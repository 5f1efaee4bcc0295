"""Sampled call paths: their tree, the file for speedscope, and an icicle chart.

In the chart each function is below its callers, as wide as its share of the samples.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...model.code import Location
from ...model.picture import CallPaths, Picture
from ...model.report import Report
from .. import words
from ..compose import ROLES, place
from . import HOVER, Figure

# Of files that are a library's or Python's own, as installed anywhere.
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "/lib64/python3.")


@dataclass(frozen=True)
class Frame:
    """``file`` is seen from where the run was started; ``users`` says that it is no library's."""

    function: str
    file: str
    line: int
    users: bool


def read_frame(text: str, cwd: str) -> Frame:
    """From ``function (file:line)``, escaped; any other text is a function without a file."""
    function, _, rest = text.partition(" (")
    file, _, line = rest.removesuffix(")").rpartition(":")
    if not (file and line.isascii() and line.isdigit() and len(line) < 10):
        return Frame(words.plain(text), "", 0, False)
    shown, _, _ = place(Location(file, int(line), function), cwd).rpartition(":")
    users = not file.startswith("<") and not any(mark in file for mark in LIBRARIES)
    return Frame(words.plain(function), shown, int(line), users)


@dataclass
class Node:
    """A frame below certain callers: its samples and those of its callees; and of as many, taken separately,
    those that were running or runnable, if all have that."""

    text: str
    count: int = 0
    running: int = 0
    known: bool = True
    below: dict[str, Node] = field(default_factory=dict)


def call_tree(paths: CallPaths) -> Node:
    """The root stands for the role; children stand heaviest first, at every depth."""
    root = Node(paths.role)
    for path in paths.paths:
        nodes = [root]
        for text in path.frames:
            nodes.append(nodes[-1].below.setdefault(text, Node(text)))
        for node in nodes:
            node.count += path.count
            node.running += path.running or 0
            node.known = node.known and path.running is not None
    waiting = [root]  # paths may be deeper than Python lets functions call themselves
    while waiting:
        node = waiting.pop()
        node.below = dict(sorted(node.below.items(), key=lambda item: (-item[1].count, item[0])))
        waiting += node.below.values()
    return root


def on_cpu_share(node: Node, fewest: int) -> float | None:
    """None if not sampled, or with fewer than ``fewest`` samples. ``running`` comes from separate samples and
    may exceed ``count``, hence at most 1."""
    return min(1.0, node.running / node.count) if node.known and node.count >= max(1, fewest) else None


SCHEMA = "https://www.speedscope.app/file-format-schema.json"
Value = dict[str, object]


def speedscope_file(report: Report, picture: Picture) -> str:
    """JSON of speedscope's own format, valid even without samples. Its unit is samples, not time: they are
    few, and their spacing is not exact."""
    frames: dict[str, int] = {}
    profiles = [profile for paths in picture.stacks for profile in _profiles(paths, frames)]
    name = words.plain(report.run.script or " ".join(report.run.command[:1]) or "bdoc")
    whole = {
        "$schema": SCHEMA,
        "name": name,
        "exporter": "bdoc",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(text, report.run.cwd) for text in frames]},
        "profiles": profiles,
    }
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _profiles(paths: CallPaths, frames: dict[str, int]) -> list[Value]:
    """All samples of a role; and those that were running or runnable, if the state was sampled."""
    role = ROLES.get(paths.role, words.plain(paths.role))
    named = {role: [(path.frames, path.count) for path in paths.paths]}
    if any(path.running for path in paths.paths):
        named[f"{role}, on CPU alone"] = [(path.frames, path.running or 0) for path in paths.paths]
    found: list[Value] = []
    for name, weighed in named.items():
        some = [(path, weight) for path, weight in weighed if weight > 0]
        found.append({
            "type": "sampled", "name": name, "unit": "none", "startValue": 0,
            "endValue": sum(weight for _, weight in some),
            "samples": [[frames.setdefault(text, len(frames)) for text in path] for path, _ in some],
            "weights": [weight for _, weight in some],
        })  # fmt: skip
    return found


def _frame(text: str, cwd: str) -> Value:
    frame = read_frame(text, cwd)
    return {"name": frame.function, **({"file": frame.file, "line": frame.line} if frame.file else {})}


NARROWEST = 1 / 400  # of the samples: a box of less is two pixels wide
MOST_BOXES = 500  # of one role; Plotly takes a millisecond or two for each
MOST_LEVELS = 40
LEVEL_PX, TOP = 20, 34  # pixels; buttons stand on top
NEARLY = 0.95  # of a frame's samples
FEWEST = 5  # samples, below which the share on a CPU is not printed
MOST_NAMED = 8  # frames of a box that are named under the pointer
IN_TABLE = 0.02  # of the samples, from which a box is in the table


class Box(NamedTuple):
    """Frames that share nearly all of their samples, where it begins in samples, and its depth."""

    frames: list[Node]
    begin: int
    depth: int


def boxes_of(paths: CallPaths) -> list[Box]:
    """What is drawn, breadth first, the whole on top. Libraries call themselves many levels deep: a library's
    frame and the one that takes nearly all of its samples, if that is a library's too, are one box."""
    root = call_tree(paths)
    boxes = [Box([root], 0, 0)]
    for box in boxes:  # grows while it is read
        begin = box.begin
        for node in box.frames[-1].below.values():
            wide = node.count >= max(1, NARROWEST * root.count)
            if wide and box.depth + 1 < MOST_LEVELS and len(boxes) < MOST_BOXES:
                boxes.append(Box(_alike(node), begin, box.depth + 1))
            begin += node.count
    return boxes


def _alike(node: Node) -> list[Node]:
    frames = [node]
    while node.below and not read_frame(node.text, "").users:
        node = next(iter(node.below.values()))  # the heaviest
        if node.count < NEARLY * frames[0].count or read_frame(node.text, "").users:
            break
        frames.append(node)
    return frames


def stacks_figure(paths: CallPaths, cwd: str) -> Figure:
    """An icicle: each box below its callers; the user's own code is coloured."""
    boxes = boxes_of(paths)
    role, whole = words.capital(ROLES.get(paths.role, paths.role)), boxes[0].frames[0].count
    levels = 1 + max(box.depth for box in boxes)
    own = [box.depth > 0 and read_frame(box.frames[0].text, cwd).users for box in boxes]
    trace: dict[str, Any] = {
        "type": "bar", "orientation": "h", "width": 0.94, "y": [box.depth for box in boxes],
        "base": [box.begin for box in boxes], "x": [box.frames[0].count for box in boxes],
        "text": [words.in_chart(_label(box, whole)) for box in boxes], "textposition": "inside",
        "insidetextanchor": "start", "textangle": 0, "hoverinfo": "text",
        "insidetextfont": {"color": ["var(--on-cpu)" if one else "var(--ink)" for one in own]},
        "hovertext": [_hover(box, whole, cwd) for box in boxes],
        "marker": {"color": ["var(--cpu)" if one else "var(--unseen)" for one in own],
                   "line": {"width": 1, "color": "var(--paper)"}},
    }  # fmt: skip
    hidden = {"visible": False, "showgrid": False, "zeroline": False}
    layout = {
        "xaxis": {**hidden, "range": [0, whole], "minallowed": 0, "maxallowed": whole},
        "yaxis": {**hidden, "range": [levels - 0.5, -0.5], "fixedrange": True},
        "margin": {"l": 0, "r": 0, "t": TOP, "b": 0}, "hovermode": "closest", "hoverlabel": HOVER,
        "barmode": "overlay", "showlegend": False, "uniformtext": {"minsize": 10, "mode": "hide"},
    }  # fmt: skip
    label, extra = f"{role}: call paths of {words.counted(whole, 'sample')}", {"unit": "samples"}
    return Figure([trace], layout, levels * LEVEL_PX + TOP, label, moves="xaxis", sort="stacks", extra=extra)


def stacks_table(paths: CallPaths, cwd: str) -> list[list[str]]:
    """The widest boxes, callers first: a sign for each level and the name, place, share, that on a CPU."""
    boxes, rows = boxes_of(paths), []
    whole = boxes[0].frames[0].count
    for box in sorted(boxes, key=lambda one: (one.begin, one.depth)):
        if (share := box.frames[0].count / whole) >= IN_TABLE:
            frame, awake = read_frame(box.frames[0].text, cwd), on_cpu_share(box.frames[0], FEWEST)
            name = " ".join(["·"] * box.depth + [_label(box, whole)])
            place = f"{frame.file}:{frame.line}" if frame.file else ""
            rows.append(
                [name, place, words.percent(share), words.percent(awake) if awake is not None else ""]
            )
    return rows


def _label(box: Box, whole: int) -> str:
    if not box.depth:
        return f"all {words.counted(whole, 'sample')}"
    names = [read_frame(node.text, "").function or "?" for node in box.frames]
    ends = [name.rpartition(".")[2] for name in (names[0], names[-1])]
    return " … ".join(ends) if len(names) > 1 else names[0]


def _hover(box: Box, whole: int, cwd: str) -> str:
    """The frames by name and place, what share of the samples they have, and how many of these on a CPU."""
    lines = [_label(box, whole)] if not box.depth else []
    for node in box.frames[: MOST_NAMED if box.depth else 0]:
        frame = read_frame(node.text, cwd)
        lines.append(f"{frame.function or '?'}  {frame.file}:{frame.line}" if frame.file else frame.function)
    rest = len(box.frames) - MOST_NAMED
    lines += [f"{words.counted(rest, 'more frame')}"] if rest > 0 else []
    count = box.frames[0].count
    lines.append(f"{words.percent(count / whole)}, {words.counted(count, 'sample')}")
    awake = on_cpu_share(box.frames[0], FEWEST)
    lines += [f"on a CPU in {words.percent(awake)} of them"] if awake is not None else []
    return "<br>".join(map(words.in_chart, lines))
