"""Follows the job's process tree, its daemons too, and sums what its processes used, the dead included."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

from .proc_files import PAGE_BYTES, TICKS_PER_S, children_of, read_pairs, read_stat

FIND_PERIOD_NS = 1_000_000_000
MOST_PROCESSES = 4_096


@dataclass(frozen=True)
class Usage:
    """What one process, or a tree, used. Times and bytes include children that were waited for."""

    parent: int = 0
    started: int = 0
    user_s: float = 0.0
    system_s: float = 0.0
    rss_bytes: int = 0
    processes: int = 1
    threads: int = 0
    major_faults: int = 0
    block_delay_s: float = 0.0
    rchar_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    reads: int = 0


ALL = tuple(field.name for field in fields(Usage))
COUNTERS = tuple(
    name for name in ALL if name not in ("parent", "started", "rss_bytes", "processes", "threads")
)


class Tree:
    """The processes below ``root_pid``. Orphans stay members until they end, those that no reading saw as
    children included.

    A parent's counters take over a child's when the child is waited for, so adding up the living is right
    even for processes too short-lived to be seen. Only who ends as an orphan must be remembered here.
    """

    def __init__(self, root_pid: int, root: Path = Path("/")) -> None:
        self.root_pid = root_pid
        self.io_refused = False
        self._proc = root / "proc"
        self._living: dict[int, Usage] = {}
        self._orphans = Usage(processes=0)
        self._best = Usage(processes=0)
        self._found_ns: int | None = None
        self._members: set[int] = {root_pid}
        self._strays = Strays(root_pid, self._proc)
        self._lists_children = (self._proc / str(root_pid) / "task" / str(root_pid) / "children").exists()

    @property
    def pids(self) -> frozenset[int]:
        """The members seen at the last reading."""
        return frozenset(self._living)

    def read(self, now_ns: int) -> Usage | None:
        """The tree's sums, never less than before; None once nothing of the tree lives."""
        if self._found_ns is None or now_ns - self._found_ns >= FIND_PERIOD_NS:
            self._members |= self._strays.find(self._members)
            self._members |= self._descendants()
            self._found_ns = now_ns
        living = {pid: usage for pid in self._members if (usage := self._read_one(pid)) is not None}
        for pid, last in self._living.items():
            if pid not in living and last.parent not in self._living:
                self._orphans = _add(self._orphans, last)
        self._living, self._members = living, set(living)
        if not living:
            return None
        total = replace(self._orphans, rss_bytes=0, processes=0, threads=0)
        for usage in living.values():
            total = _add(total, usage)
        # Counters only grow: a child that ends between two reads would be missing for one reading.
        grown = {name: max(getattr(total, name), getattr(self._best, name)) for name in COUNTERS}
        self._best = replace(total, **grown)
        return self._best

    def _descendants(self) -> set[int]:
        """All processes below the known members, through the kernel's lists of children."""
        if not self._lists_children:
            return _descendants_by_scan(self.root_pid)
        seen = set(self._members)
        queue = list(seen)
        while queue and len(seen) < MOST_PROCESSES:
            for child in children_of(self._proc, queue.pop()):
                if child not in seen:
                    seen.add(child)
                    queue.append(child)
        return seen

    def _read_one(self, pid: int) -> Usage | None:
        words = read_stat(self._proc, pid)
        if len(words) < 40 or words[0] == "X":
            return None
        number = [int(word) for word in words[1:40]]  # number[n] is field n + 4 of proc(5)
        known = self._living.get(pid)
        if known is not None and known.started != number[18]:
            return None  # another process got the number
        counts = read_pairs(self._proc / str(pid) / "io")
        self.io_refused = self.io_refused or (not counts and words[0] != "Z")
        return Usage(
            parent=number[0],
            started=number[18],
            user_s=(number[10] + number[12]) / TICKS_PER_S,
            system_s=(number[11] + number[13]) / TICKS_PER_S,
            rss_bytes=number[20] * PAGE_BYTES,
            threads=number[16],
            major_faults=number[8] + number[9],
            block_delay_s=number[38] / TICKS_PER_S,
            rchar_bytes=counts.get("rchar", 0),
            read_bytes=counts.get("read_bytes", 0),
            write_bytes=counts.get("write_bytes", 0),
            reads=counts.get("syscr", 0),
        )


def _descendants_by_scan(pid: int) -> set[int]:
    """For kernels without lists of children: one walk over every process of the machine."""
    import psutil

    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.Error:
        return set()


def _add(left: Usage, right: Usage) -> Usage:
    """Sums everything; parent and start mean nothing in a sum, and nobody reads them there."""
    return Usage(**{name: getattr(left, name) + getattr(right, name) for name in ALL})


MARK = b"BDOC_RUN="
DEEPEST = 64  # ancestors that are asked


class Strays:
    """The orphans of one job. Each process is looked into once."""

    def __init__(self, root_pid: int, proc: Path) -> None:
        self._root_pid, self._proc = root_pid, proc
        self._mark = b""
        self._asked: set[int] = set()

    def find(self, members: set[int]) -> set[int]:
        """Those that were not there at the last call; ``members`` are known already."""
        self._mark = self._mark or self._mark_of(self._root_pid)
        if not self._mark:
            return set()
        orphans = {child for parent in self._ancestors() for child in children_of(self._proc, parent)}
        orphans -= members
        fresh = orphans - self._asked
        self._asked = orphans  # the others are gone; their numbers may come again
        return {pid for pid in fresh if self._mark_of(pid) == self._mark}

    def _mark_of(self, pid: int) -> bytes:
        """The run that a process belongs to; empty where that is not said, or not to us."""
        try:
            words = (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return b""
        return next((word for word in words if word.startswith(MARK)), b"")

    def _ancestors(self) -> list[int]:
        found: list[int] = []
        pid = self._root_pid
        while pid > 1 and len(found) < DEEPEST:
            words = read_stat(self._proc, pid)
            pid = int(words[1]) if len(words) > 1 else 0
            if pid > 0:
                found.append(pid)
        return found
