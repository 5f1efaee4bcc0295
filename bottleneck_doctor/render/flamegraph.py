"""The flame graph as a page: where Python was seen, by role, to zoom, to search and to read as a list."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.picture import CallPaths, Picture
from ..model.report import Report
from . import words
from .compose import ROLES, compose, state, why_no_stacks
from .document import Lengths
from .figures.flame import FEWEST, flame
from .stacks import Node, call_tree, on_cpu_share, read_frame

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
    from .page.shell import page, templates

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
