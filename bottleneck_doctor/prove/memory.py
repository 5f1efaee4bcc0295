"""Watches what a trial's processes hold in memory, and ends it before the kernel must kill somebody."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ..sense.cgroup import UNLIMITED_BYTES, Cgroups, find_cgroups, groups_with
from ..sense.proc_files import read_number, read_pairs

SCARCE_SHARE = 0.05  # of the memory: below that the kernel throws out the page cache and soon kills (ours)
EVERY_S = 0.5
REST = 100  # times the CPU that the last look took: counting the pages of large processes takes milliseconds
SHOWN_IN = 1 << 20


@dataclass
class Memory:
    """``peak_bytes`` of all processes together, shared pages counted once; None before the first look."""

    ceiling_bytes: int | None = None
    peak_bytes: int | None = None
    _cgroups: Cgroups = field(default_factory=find_cgroups)
    _floor_bytes: float = 0.0
    _next_s: float = 0.0
    _killed_before: int = 0

    def __post_init__(self) -> None:
        left, whole = _room(self._cgroups)
        self._floor_bytes = min(SCARCE_SHARE * whole, left / 2)  # it may have been scarce before we came
        self._killed_before = _kills(self._cgroups)

    def look(self, family: Callable[[], list[psutil.Process]], now_s: float) -> str:
        """Why the trial must end now; "" while it may go on. ``family`` finds its processes."""
        left, _ = _room(self._cgroups)
        if left < self._floor_bytes:
            return f"it left {left // SHOWN_IN} MiB of memory to everybody else"
        if now_s >= self._next_s:
            began_s = time.thread_time()
            self._count(family())
            self._next_s = now_s + max(EVERY_S, REST * (time.thread_time() - began_s))
        if self.ceiling_bytes is not None and (self.peak_bytes or 0) > self.ceiling_bytes:
            held, may = (self.peak_bytes or 0) // SHOWN_IN, self.ceiling_bytes // SHOWN_IN
            return f"its processes held {held} MiB, more than the {may} MiB they may"
        return ""

    def was_short(self) -> bool:
        """Whether the kernel has killed for want of memory since we began."""
        return _kills(self._cgroups) > self._killed_before

    def _count(self, family: list[psutil.Process]) -> None:
        held = sum(_proportional_bytes(one.pid) for one in family)
        if held:
            self.peak_bytes = max(self.peak_bytes or 0, held)


def _proportional_bytes(pid: int) -> int:
    """Its pages, each divided by how many processes share it; its resident ones where that is not told."""
    found = read_pairs(Path(f"/proc/{pid}/smaps_rollup"))
    with suppress(psutil.Error):
        return found.get("Pss", 0) * 1024 or psutil.Process(pid).memory_info().rss
    return 0


def _room(cgroups: Cgroups) -> tuple[int, int]:
    """Bytes that can still be had, of how many: of the machine, or of a control group with less room."""
    machine = psutil.virtual_memory()
    groups = {file.parent for file in groups_with(cgroups, "memory", "memory.max", "memory.limit_in_bytes")}
    return min([(machine.available, machine.total), *filter(None, map(_room_in, groups))])


def _room_in(group: Path) -> tuple[int, int] | None:
    """The same of one group; None without a limit. The page cache of its files is charged to it, and given up
    when memory is wanted."""
    limit = read_number(group / "memory.max") or read_number(group / "memory.limit_in_bytes")
    used = read_number(group / "memory.current") or read_number(group / "memory.usage_in_bytes")
    if limit is None or used is None or limit >= UNLIMITED_BYTES:
        return None
    counts = read_pairs(group / "memory.stat")
    files = (counts.get(f"total_{name}", counts.get(name, 0)) for name in ("active_file", "inactive_file"))
    return limit - used + sum(files), limit


def _kills(cgroups: Cgroups) -> int:
    """How often the kernel killed for want of memory: in our control group, else on the whole machine."""
    files = groups_with(cgroups, "memory", "memory.events", "memory.oom_control")
    counts = read_pairs(files[0]) if files else {}
    return counts.get("oom_kill", 0) + read_pairs(Path("/proc/vmstat")).get("oom_kill", 0)
