"""The flame graph as a page: where Python was seen, by role, to zoom, to search and to read as a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush

from ..model.picture import CallPaths, Picture
from ..model.report import Report
from . import words
from .compose import ROLES, compose, state, why_no_stacks
from .document import Lengths
from .figures.axes import HOVER, Figure
from .stacks import Frame, Node, call_tree, on_cpu_share, read_frame

LEAST = 0.01  # of a role's samples: what the list leaves to the graph (ours)
DEEPEST_FORKS = 40  # within the list, where each fork is indented


@dataclass(frozen=True)
class FrameLine:
    """One frame in the list."""

    share: str
    name: str
    place: str
    state: str
    users: bool


@dataclass(frozen=True)
class Branch:
    """Frames that call one another and nothing else that weighs, then those into which the last one forks."""

    lines: list[FrameLine]
    below: list[Branch] = field(default_factory=list)


@dataclass(frozen=True)
class Role:
    """One section of the page."""

    name: str
    title: str
    taken: str
    branches: list[Branch]


def flamegraph_page(report: Report, picture: Picture) -> str:
    """A self-contained page, even where nothing was sampled: it says why then."""
    from .page import page, templates

    trees = {paths.role: call_tree(paths) for paths in picture.stacks}
    cwd = report.run.cwd
    roles = [_role(paths, trees[paths.role], cwd) for paths in picture.stacks]
    figures = {
        f"flame-{role}": flame(tree, words.capital(ROLES.get(role, role)), cwd)
        for role, tree in trees.items()
    }
    document = compose(report, Lengths())
    seen = any(path.running is not None for paths in picture.stacks for path in paths.paths)
    body = (
        templates()
        .get_template("flamegraph.html.j2")
        .render(document=document, roles=roles, seen=seen, why=words.capital(why_no_stacks(report)))
    )
    return page(f"flame graph: {document.command}", body, figures, ("flame.css", "flame.js"))


def _role(paths: CallPaths, root: Node, cwd: str) -> Role:
    title = words.capital(ROLES.get(paths.role, words.plain(paths.role)))
    taken = words.counted(paths.samples, "sample")
    rarer = paths.samples - root.count
    if rarer > 0:
        taken += f", {words.count(rarer)} of them in paths too rare to be drawn"
    branches = [_branch(node, root.count, cwd, 0) for node in _weighty(root, root.count)]
    return Role(f"flame-{paths.role}", title, taken, branches)


def _branch(node: Node, whole: int, cwd: str, depth: int) -> Branch:
    lines = [_line(node, whole, cwd)]
    while len(below := _weighty(node, whole)) == 1:
        node = below[0]
        lines.append(_line(node, whole, cwd))
    forks = below if depth < DEEPEST_FORKS else []
    return Branch(lines, [_branch(one, whole, cwd, depth + 1) for one in forks])


def _weighty(node: Node, whole: int) -> list[Node]:
    return [one for one in node.below.values() if one.count and one.count >= LEAST * whole]


def _line(node: Node, whole: int, cwd: str) -> FrameLine:
    frame = read_frame(node.text, cwd)
    place = f"{frame.file}:{frame.line}" if frame.file else ""
    said = state(on_cpu_share(node, FEWEST))
    return FrameLine(words.percent(node.count / whole), frame.function or "?", place, said, frame.users)


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
