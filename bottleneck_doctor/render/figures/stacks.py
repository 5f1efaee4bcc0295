"""Sampled call paths: their tree, the file for speedscope, and an icicle chart.

In the chart each function is below its callers, as wide as its share of the samples.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

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
MOST_LEVELS = 40  # drawn at once; clicking a box shows what is below
LEVEL_PX = 20
FEWEST = 5  # samples, below which the share on a CPU is not printed


def stacks_figure(paths: CallPaths, cwd: str) -> Figure:
    """The root's box stands for all samples of the role; the user's own code is coloured."""
    root = call_tree(paths)
    boxes: list[tuple[Node, str, int]] = [(root, "", 0)]  # node, id of its parent, depth
    for number, (node, _, depth) in enumerate(boxes):  # breadth first: grows while it is read
        wide = [one for one in node.below.values() if one.count >= max(1, NARROWEST * root.count)]
        boxes += [(one, str(number), depth + 1) for one in wide[: MOST_BOXES - len(boxes)]]
    role = words.capital(ROLES.get(paths.role, paths.role))
    levels = min(MOST_LEVELS, 1 + max(depth for *_, depth in boxes))
    labels, hovers, colors = zip(
        *(_described(node, role if not parent else "", root.count, cwd) for node, parent, _ in boxes),
        strict=True,
    )
    trace: dict[str, Any] = {
        "type": "icicle", "ids": [str(number) for number in range(len(boxes))],
        "parents": [parent for _, parent, _ in boxes], "values": [node.count for node, *_ in boxes],
        "labels": labels, "hovertext": hovers, "marker": {"colors": colors, "line": {"width": 0}},
        "branchvalues": "total", "sort": False, "hoverinfo": "text", "textinfo": "label",
        "textposition": "middle left", "maxdepth": levels, "leaf": {"opacity": 1},
        "tiling": {"orientation": "v", "pad": 1}, "pathbar": {"thickness": LEVEL_PX, "side": "top"},
    }  # fmt: skip
    layout = {
        "margin": {"l": 0, "r": 0, "t": LEVEL_PX + 10, "b": 0}, "hoverlabel": HOVER,
        "uniformtext": {"minsize": 9, "mode": "hide"},
    }  # fmt: skip
    label = f"{role}: call paths of {words.counted(root.count, 'sample')}"
    return Figure([trace], layout, (levels + 1) * LEVEL_PX + 10, label)


def _described(node: Node, role: str, whole: int, cwd: str) -> tuple[str, str, str]:
    """Label, text under the pointer and colour of one box."""
    frame = read_frame(node.text, cwd)
    name = role or frame.function or "?"
    place = f"{frame.file}:{frame.line}" if frame.file and not role else ""
    share = f"{words.percent(node.count / whole)}, {words.counted(node.count, 'sample')}"
    awake = on_cpu_share(node, FEWEST)
    running = f"on a CPU in {words.percent(awake)} of them" if awake is not None else ""
    hover = "<br>".join(map(words.in_chart, filter(None, [name, place, share, running])))
    own = bool(frame.users and not role)
    return words.in_chart(name) or "?", hover, "var(--compute)" if own else "var(--unseen)"
