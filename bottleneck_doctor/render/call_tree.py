"""Call paths joined into a tree: what a flame graph draws, and what its table nests."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..model.picture import CallPaths


@dataclass
class Node:
    """A frame below certain callers: samples in it or below, and of as many taken apart those found on or
    ready for a core, where that was seen of all."""

    text: str
    count: int = 0
    running: int = 0
    known: bool = True
    below: dict[str, Node] = field(default_factory=dict)


def call_tree(paths: CallPaths) -> Node:
    """The root stands for the role; children stand heaviest first, at every depth."""
    root = Node(paths.role)
    for path in paths.paths:
        node = root
        _add(node, path.count, path.running)
        for text in path.frames:
            node = node.below.setdefault(text, Node(text))
            _add(node, path.count, path.running)
    _order(root)
    return root


def _add(node: Node, count: int, running: int | None) -> None:
    node.count += count
    node.running += running or 0
    node.known = node.known and running is not None


def _order(root: Node) -> None:
    waiting = [root]  # paths may be deeper than Python lets functions call themselves
    while waiting:
        node = waiting.pop()
        node.below = dict(sorted(node.below.items(), key=lambda item: (-item[1].count, item[0])))
        waiting += node.below.values()


def on_cpu_share(node: Node, fewest: int) -> float | None:
    """None where it was not seen, or in fewer than ``fewest`` samples. The looks are taken apart, so that the
    second may see a little more than the first."""
    return min(1.0, node.running / node.count) if node.known and node.count >= max(1, fewest) else None
