"""Reads the machine's counters: processors, memory, stalls, throttling and disks, all cumulative."""

from __future__ import annotations

import re
from pathlib import Path

from ..model.run import Gap
from .capabilities import shm_free_bytes
from .cgroup import find_cgroups, memory_limit_hits, pressure_folder, throttling
from .proc_files import PAGE_BYTES, TICKS_PER_S, read_text

SECTOR_BYTES = 512  # the kernel's unit in diskstats, whatever the disk's own is
WHOLE_DISK = re.compile(r"^((sd|vd|xvd|hd)[a-z]+|nvme\d+n\d+|mmcblk\d+)$")

Values = dict[str, float | str]


class HostSensor:
    """Reads everything at once; what is missing is left out of the values and named as a gap."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._root = root
        self._proc = root / "proc"
        self._cgroups = find_cgroups(root, pid)
        own = pressure_folder(self._cgroups)
        self._pressure = {
            name: self._proc / "pressure" / name if own is None else own / f"{name}.pressure"
            for name in ("cpu", "io", "memory")
        }
        self._disks: dict[str, bool] = {}
        self.gaps: list[Gap] | None = None

    def read(self) -> Values:
        """One reading of all counters."""
        values: Values = {}
        for read in (self._processors, self._memory, self._stalls, self._throttled, self._traffic):
            values |= read()
        if self.gaps is None:
            self.gaps = self._find_gaps(values)
        return values

    def _find_gaps(self, values: Values) -> list[Gap]:
        gaps = []
        if read_text(self._pressure["io"]) is None:
            why = f"{self._pressure['io']} cannot be read"
            gaps.append(Gap("pressure stall information", why, "boot with psi=1 on Linux 4.20 or later"))
        if "disk_busy_s" not in values:
            gaps.append(Gap("disk counters", f"{self._proc / 'diskstats'} shows no physical disk"))
        return gaps

    def _processors(self) -> Values:
        words = (read_text(self._proc / "stat") or "").partition("\n")[0].split()
        if len(words) < 9:
            return {}
        # Guest time is inside user time already.
        user, nice, system, idle, iowait, irq, softirq = (int(word) / TICKS_PER_S for word in words[1:8])
        busy = user + nice + system + irq + softirq
        return {"cpu_busy_s": busy, "cpu_idle_s": idle, "cpu_iowait_s": iowait}

    def _memory(self) -> Values:
        available_kib = _counter("MemAvailable:", read_text(self._proc / "meminfo"))
        moved = read_text(self._proc / "vmstat")
        swapped, refaulted = _counter("pswpin", moved), _counter("workingset_refault_file", moved)
        found = {
            "memory_available_bytes": None if available_kib is None else available_kib * 1024,
            "swap_in_bytes": None if swapped is None else swapped * PAGE_BYTES,
            "refault_bytes": None if refaulted is None else refaulted * PAGE_BYTES,
            "memory_limit_hits": memory_limit_hits(self._cgroups),
            "shm_free_bytes": shm_free_bytes(self._root),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _stalls(self) -> Values:
        values: Values = {}
        for resource, file in self._pressure.items():
            total = re.search(r"^some .*total=(\d+)", read_text(file) or "", re.MULTILINE)
            if total is not None:
                values[f"pressure_{resource}_some_s"] = int(total[1]) / 1e6
        return values

    def _throttled(self) -> Values:
        counts = throttling(self._cgroups)
        return {} if counts is None else {"quota_periods": counts[0], "throttled_periods": counts[1]}

    def _traffic(self) -> Values:
        """Sums over the physical disks: mapped ones and partitions would count the same bytes twice."""
        lines = [line.split() for line in (read_text(self._proc / "diskstats") or "").splitlines()]
        rows = [list(map(int, words[3:14])) for words in lines if len(words) > 13 and self._is_disk(words[2])]
        if not rows:
            return {}
        sums = [sum(column) for column in zip(*rows, strict=True)]  # columns of the kernel's iostats.rst
        return {
            "disk_read_bytes": sums[2] * SECTOR_BYTES,
            "disk_busy_s": sums[9] / 1e3,
            "disk_queue_s": sums[10] / 1e3,
        }

    def _is_disk(self, name: str) -> bool:
        if name not in self._disks:
            blocks = self._root / "sys/block"
            hardware = (blocks / name / "device").exists()
            self._disks[name] = hardware if blocks.is_dir() else WHOLE_DISK.match(name) is not None
        return self._disks[name]


def _counter(name: str, text: str | None) -> int | None:
    """One line of meminfo or vmstat; parsing all of their two hundred at every reading would cost more."""
    _, found, rest = (text or "").partition(f"\n{name} ")
    word = rest.split(maxsplit=1)[:1] if found else []
    return int(word[0]) if word and word[0].isdigit() else None
