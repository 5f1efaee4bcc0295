"""Reads how much the processes below the watched one compute in their main thread, and how much in others."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .host import Values
from .proc_files import read_text

MOST_THREADS = 512  # of one reading; each takes some microseconds


class ChildThreads:
    """Sums over processes and threads, the ended included as far as they were read: they only grow."""

    def __init__(self, root_pid: int, root: Path = Path("/")) -> None:
        self._root_pid, self._proc = root_pid, root / "proc"
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        self._main_ns = self._waited_ns = self._others_ns = 0

    def read(self, pids: Iterable[int]) -> Values:
        """One reading, nothing where there was never a child."""
        threads = [(pid, tid) for pid in sorted(pids) if pid != self._root_pid for tid in self._threads(pid)]
        seen = {
            (pid, tid): used
            for pid, tid in threads[:MOST_THREADS]
            if (used := _used(self._proc / str(pid) / "task" / str(tid) / "schedstat")) is not None
        }
        for (pid, tid), (cpu_ns, waited_ns) in seen.items():
            before = self._last.get((pid, tid), (0, 0))
            cpu_ns, waited_ns = max(0, cpu_ns - before[0]), max(0, waited_ns - before[1])
            if pid == tid:
                self._main_ns += cpu_ns
                self._waited_ns += waited_ns
            else:
                self._others_ns += cpu_ns
        known = bool(self._last or seen)
        self._last = seen
        if not known:
            return {}
        return {
            "children_main_cpu_s": self._main_ns / 1e9,
            "children_main_queue_s": self._waited_ns / 1e9,
            "children_beside_cpu_s": self._others_ns / 1e9,
        }

    def _threads(self, pid: int) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self._proc / str(pid) / "task"))
        except OSError:  # it has ended
            return []


def _used(schedstat: Path) -> tuple[int, int] | None:
    """Nanoseconds on a core and of waiting for one; None where the kernel does not say, or it has ended."""
    words = (read_text(schedstat) or "").split()
    return (int(words[0]), int(words[1])) if len(words) == 3 else None
