"""Keeps each process on the cores of one node of the machine; memory that it touches first lies there, too.

No options. Ranks are dealt to the nodes in turn. Workers stay where their trainer is.
"""

from __future__ import annotations

import os

from ..hints import Any, Done, Table

NODES = "/sys/devices/system/node"


def watchers(options: dict[str, Any], done: Done) -> Table:
    """At once, before torch counts the cores."""
    allowed = os.sched_getaffinity(0)
    nodes = [cores for cores in _nodes() if cores & allowed]
    if len(nodes) < 2:
        done("the cores that it may use belong to one node" if nodes else "no nodes are told of")
        return {}
    rank = os.environ.get("LOCAL_RANK", "0")
    os.sched_setaffinity(0, nodes[int(rank) % len(nodes)] & allowed)
    done()
    return {}


def _nodes() -> list[set[int]]:
    """The cores of each node, by its number."""
    numbers = sorted(int(name[4:]) for name in os.listdir(NODES) if name[:4] == "node" and name[4:].isdigit())
    return [_cores(NODES + "/node%d/cpulist" % number) for number in numbers]


def _cores(file: str) -> set[int]:
    """Of a list such as 0-3,8-11."""
    cores: set[int] = set()
    with open(file, encoding="ascii") as listed:
        for part in listed.read().strip().split(","):
            first, _, last = part.partition("-")
            if first:
                cores.update(range(int(first), int(last or first) + 1))
    return cores
