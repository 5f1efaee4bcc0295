"""Looks once at where a process's memory lies: on the node of the core it runs on, or on others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .reading import read_text
from .traffic import Values

AFTER_NS = 5_000_000_000  # the first pages are touched while modules load; the model and its data come later
LARGEST_PAGES = 8 << 20  # 32 GiB: walking more would hold up the process's own memory maps for too long
PLACED = re.compile(r"\bN(\d+)=(\d+)")


class Numa:
    """Silent on machines with one node."""

    def __init__(self, now_ns: int, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._due_ns: int | None = now_ns + AFTER_NS
        self._node_of = _nodes(root / "sys/devices/system/node")

    def read(self, now_ns: int, pids: Iterable[int]) -> Values:
        """The share of the largest process's pages on other nodes than the one it runs on; once."""
        if self._due_ns is None or now_ns < self._due_ns or len(set(self._node_of.values())) < 2:
            return {}
        self._due_ns = None
        pages, pid = max(((self._pages(pid), pid) for pid in pids), default=(0, 0))
        home = self._home(pid)
        if not pages or pages > LARGEST_PAGES or home is None:
            return {}
        placed: Counter[int] = Counter()
        for node, count in PLACED.findall(read_text(self._proc / str(pid) / "numa_maps") or ""):
            placed[int(node)] += int(count)
        total = sum(placed.values())
        return {"numa_remote_share": 1 - placed[home] / total, "numa_pages": total} if total else {}

    def _pages(self, pid: int) -> int:
        words = (read_text(self._proc / str(pid) / "statm") or "").split()
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0

    def _home(self, pid: int) -> int | None:
        """The node of the core that the main thread last ran on."""
        text = read_text(self._proc / str(pid) / "stat") or ""
        words = text[text.rfind(")") + 2 :].split()
        return self._node_of.get(int(words[36])) if len(words) > 36 else None


def _nodes(folder: Path) -> dict[int, int]:
    """Core to node."""
    found: dict[int, int] = {}
    for node in folder.glob("node[0-9]*"):
        for part in (read_text(node / "cpulist") or "").strip().split(","):
            first, _, last = part.partition("-")
            if first.isdigit():
                found |= dict.fromkeys(range(int(first), int(last or first) + 1), int(node.name[4:]))
    return found
