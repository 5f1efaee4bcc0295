"""Sampled call paths as an icicle: each function below its callers, as wide as its share of the samples."""

from __future__ import annotations

from typing import Any

from ...model.picture import CallPaths
from .. import words
from ..compose import ROLES
from ..stacks import Node, call_tree, on_cpu_share, read_frame
from .axes import HOVER, Figure

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
