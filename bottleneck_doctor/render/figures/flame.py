"""The flame graph of one role: an icicle whose boxes are frames, as wide as their share of the samples."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from .. import words
from ..stacks import Frame, Node, on_cpu_share, read_frame
from .axes import HOVER, Figure

NARROWEST = 1 / 400  # of the samples: a box of less is two pixels wide (ours)
MOST_BOXES = 500  # of one role, the widest: Plotly takes a millisecond or two for each
MOST_LEVELS = 60  # drawn at once; what is below shows when a box above it is clicked
LEVEL_PX = 20
BAR_PX = 30  # above, the callers of the box that was clicked
FEWEST = 5  # samples, below which no colour says whether they were awake (ours)
COLOURS = 5  # from blocked to on CPU


@dataclass
class Boxes:
    """Plotly's columns, one row per box."""

    ids: list[str] = field(default_factory=list)
    parents: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    hovers: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    searched: list[str] = field(default_factory=list)
    deepest: int = 0


def flame(root: Node, role: str, cwd: str) -> Figure:
    """``role`` in words; the root's box stands for all of its samples."""
    boxes = _boxes(root, role, cwd)
    levels = min(MOST_LEVELS, boxes.deepest + 1)
    trace = {
        "type": "icicle", "ids": boxes.ids, "parents": boxes.parents, "labels": boxes.labels,
        "values": boxes.values, "hovertext": boxes.hovers, "branchvalues": "total", "sort": False,
        "hoverinfo": "text", "textinfo": "label", "textposition": "middle left", "maxdepth": levels,
        "tiling": {"orientation": "v", "pad": 1}, "pathbar": {"thickness": LEVEL_PX, "side": "top"},
        "marker": {"colors": boxes.states, "line": {"width": 0}}, "leaf": {"opacity": 1},
    }  # fmt: skip
    layout = {
        "margin": {"l": 0, "r": 0, "t": BAR_PX, "b": 0},
        "uniformtext": {"minsize": 9, "mode": "hide"},
        "uirevision": "kept",  # new colours leave the reader where he is
        "hoverlabel": HOVER,
    }
    said = words.counted(root.count, "sample")
    return Figure(
        [trace],
        layout,
        levels * LEVEL_PX + BAR_PX,
        f"{role}: flame graph of {said}; the same stands in the list below",
        sort="flame",
        extra={"states": boxes.states, "owners": boxes.owners, "searched": boxes.searched},
    )


def _boxes(root: Node, role: str, cwd: str) -> Boxes:
    boxes = Boxes()
    waiting = [(-root.count, 0, root, "", 0)]  # the widest first, of equal ones the first met
    met = 0
    while waiting and len(boxes.ids) < MOST_BOXES:
        _, _, node, parent, depth = heappop(waiting)
        name = str(len(boxes.ids))
        _box(boxes, node, name, parent, read_frame(node.text, cwd) if parent else None, role, root.count)
        boxes.deepest = max(boxes.deepest, depth)
        for one in node.below.values():
            met += 1
            if _wide(one, root):
                heappush(waiting, (-one.count, met, one, name, depth + 1))
    return boxes


def _wide(node: Node, root: Node) -> bool:
    return node.count > 0 and node.count >= NARROWEST * root.count


def _box(
    boxes: Boxes, node: Node, name: str, parent: str, frame: Frame | None, role: str, whole: int
) -> None:
    share = on_cpu_share(node, FEWEST) if frame is not None else None  # the whole is no one thing
    title = frame.function if frame is not None else role
    place = f"{frame.file}:{frame.line}" if frame is not None and frame.file else ""
    boxes.ids.append(name)
    boxes.parents.append(parent)
    boxes.labels.append(words.in_chart(title) or "?")
    boxes.values.append(node.count)
    boxes.hovers.append("<br>".join(map(words.in_chart, filter(None, [title, place, *told(node, whole)]))))
    boxes.states.append(colour(share))
    users = frame is not None and frame.users
    boxes.owners.append(f"var(--flame-{'own' if users else 'library'})")
    boxes.searched.append(f"{title} {place}".lower() if frame is not None else "")


def told(node: Node, whole: int) -> list[str]:
    """Share and samples; how many of them were awake, in numbers, as few may not make a share."""
    said = [f"{words.percent(node.count / whole if whole else None)}, {words.counted(node.count, 'sample')}"]
    if node.known:
        said.append(f"on CPU in {words.count(min(node.running, node.count))} of them")
    return said


def colour(share: float | None) -> str:
    """The name of the colour of a share that was on CPU."""
    if share is None:
        return "var(--flame-unseen)"
    return f"var(--flame-{min(COLOURS - 1, int(share * COLOURS))})"
