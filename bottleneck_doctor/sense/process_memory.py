"""Reads what the job's processes hold: memory, descriptors, mapped files, and the NUMA nodes these lie on."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .host import Values
from .proc_files import read_pairs, read_stat, read_text

PERIOD_NS = 2_000_000_000
MOST_PROCESSES = 16  # the walk over one process's page tables takes milliseconds per gigabyte
MAPPED_AT = 3  # that reading, some seconds into the run: by then data sets are open
NO_DATA = ("/dev/", "/memfd:", "/SYSV", "/usr/lib/locale/")  # shared memory and the C library's own files


class Holdings:
    """Sums private memory over the processes, and finds the one nearest to its limit of open files; once, the
    largest amount of data that one of them has mapped."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._due_ns = 0
        self._readings = 0

    def read(self, now_ns: int, pids: Iterable[int]) -> Values:
        """One reading, nothing while the last one is fresh."""
        if now_ns < self._due_ns:
            return {}
        self._due_ns = now_ns + PERIOD_NS
        chosen = sorted(pids)[:MOST_PROCESSES]
        self._readings += 1
        values = {**self._memory(chosen), **self._descriptors(chosen)}
        if self._readings == MAPPED_AT:
            values["mapped_data_bytes"] = max(map(self._mapped, chosen), default=0)
        return values

    def _memory(self, pids: list[int]) -> Values:
        rollups = [read_pairs(self._proc / str(pid) / "smaps_rollup") for pid in pids]
        known = [one for one in rollups if "Private_Dirty" in one]
        if not known:
            return {}
        return {
            "job_private_bytes": 1024 * sum(one["Private_Dirty"] for one in known),
            "job_swapped_bytes": 1024 * sum(one.get("Swap", 0) for one in known),
            "job_measured_processes": len(known),
        }

    def _mapped(self, pid: int) -> int:
        """Bytes of files that are mapped and hold no code."""
        sizes: dict[str, int] = {}
        code = set()
        for line in (read_text(self._proc / str(pid) / "maps") or "").splitlines():
            span, mode, _, _, inode, *path = line.split(None, 5)
            if inode == "0" or not path or path[0].startswith(NO_DATA):
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            sizes[path[0]] = sizes.get(path[0], 0) + last - first
            if "x" in mode:
                code.add(path[0])
        return sum(size for path, size in sizes.items() if path not in code and ".so" not in path)

    def _descriptors(self, pids: list[int]) -> Values:
        """Of the process with the largest share of its own limit in use."""
        found = [both for pid in pids if (both := self._open_files(pid)) is not None]
        if not found:
            return {}
        used, limit = max(found, key=lambda both: both[0] / both[1])
        return {"descriptors": used, "descriptor_limit": limit}

    def _open_files(self, pid: int) -> tuple[int, int] | None:
        try:
            used = len(os.listdir(self._proc / str(pid) / "fd"))
        except OSError:
            return None
        for line in (read_text(self._proc / str(pid) / "limits") or "").splitlines():
            if line.startswith("Max open files"):
                words = line.split()
                return (used, int(words[3])) if words[3].isdigit() and int(words[3]) > 0 else None
        return None


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
        words = read_stat(self._proc, pid)
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
