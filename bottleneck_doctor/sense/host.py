"""Reads the machine's counters: processors, memory, stalls, throttling and traffic, all cumulative."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..model.run import Gap
from .capabilities import shm_free_bytes
from .cgroup import find_cgroups, memory_limit_hits, memory_used_bytes, pressure_folder, throttling
from .proc_files import PAGE_BYTES, TICKS_PER_S, read_text

SECTOR_BYTES = 512  # the kernel's unit in diskstats, whatever the disk's own is
WHOLE_DISK = re.compile(r"^((sd|vd|xvd|hd)[a-z]+|nvme\d+n\d+|mmcblk\d+)$")
VIRTUAL_LINK = re.compile(r"^(lo|ifb|dummy|docker|br-|veth|virbr|bond|team|tun|tap)\d*")
NFS_OPERATION = re.compile(r"^\s*[A-Z_0-9]+: (\d+(?: \d+){7})", re.MULTILINE)

Values = dict[str, float | str]


class Traffic:
    """Counters of the physical devices: mapped and virtual ones would count the same bytes twice."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._disks: dict[str, bool] = {}
        self._links: dict[str, bool] = {}

    def read(self) -> Values:
        """All counters that there are."""
        return {**self._read_disks(), **self._read_links(), **self._read_nfs()}

    def _read_disks(self) -> Values:
        lines = [line.split() for line in (read_text(self._root / "proc/diskstats") or "").splitlines()]
        rows = [
            list(map(int, words[3:14])) for words in lines if len(words) >= 14 and self._is_disk(words[2])
        ]
        if not rows:
            return {}
        reads, _, read_sectors, read_ms, writes, _, written_sectors, _, _, busy_ms, queue_ms = _sums(rows)
        return {
            "disks": len(rows),
            "disk_reads": reads,
            "disk_read_bytes": read_sectors * SECTOR_BYTES,
            "disk_read_s": read_ms / 1e3,
            "disk_writes": writes,
            "disk_write_bytes": written_sectors * SECTOR_BYTES,
            "disk_busy_s": busy_ms / 1e3,
            "disk_queue_s": queue_ms / 1e3,
        }

    def _is_disk(self, name: str) -> bool:
        if name not in self._disks:
            blocks = self._root / "sys/block"
            hardware = (blocks / name / "device").exists()
            self._disks[name] = hardware if blocks.is_dir() else WHOLE_DISK.match(name) is not None
        return self._disks[name]

    def _read_links(self) -> Values:
        """Bytes received on physical links; in a container, whose links are virtual, on the usual ones."""
        received: dict[str, int] = {}
        for line in (read_text(self._root / "proc/net/dev") or "").splitlines():
            name, colon, counts = line.partition(":")
            if colon and counts.split():
                received[name.strip()] = int(counts.split()[0])
        names = [name for name in received if self._is_physical(name)]
        names = names or [name for name in received if VIRTUAL_LINK.match(name) is None]
        return {"network_received_bytes": sum(received[name] for name in names)} if names else {}

    def _is_physical(self, name: str) -> bool:
        if name not in self._links:
            self._links[name] = (self._root / "sys/class/net" / name / "device").exists()
        return self._links[name]

    def _read_nfs(self) -> Values:
        """Operations of all NFS mounts together, and how long they queued, travelled and took in all."""
        text = read_text(self._root / "proc/self/mountstats") or ""
        if " with fstype nfs" not in text:
            return {}
        rows = [list(map(int, numbers.split())) for numbers in NFS_OPERATION.findall(text)]
        operations, _, _, _, received, queue_ms, trip_ms, all_ms = _sums(rows) if rows else [0] * 8
        return {
            "nfs_operations": operations,
            "nfs_received_bytes": received,
            "nfs_queue_s": queue_ms / 1e3,
            "nfs_round_trip_s": trip_ms / 1e3,
            "nfs_s": all_ms / 1e3,
        }


def _sums(rows: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*rows, strict=True)]


class HostSensor:
    """Reads everything at once; what is missing is left out of the values and named as a gap."""

    def __init__(self, pid: int, root: Path = Path("/")) -> None:
        self._root = root
        self._proc = root / "proc"
        self._cgroups = find_cgroups(root, pid)
        own = pressure_folder(self._cgroups)
        self._pressure_scope = "machine" if own is None else "cgroup"
        self._pressure = {
            name: self._proc / "pressure" / name if own is None else own / f"{name}.pressure"
            for name in ("cpu", "io", "memory")
        }
        self._traffic = Traffic(root)
        self._cores: dict[str, tuple[float, float]] = {}
        self.gaps: list[Gap] | None = None

    def read(self) -> Values:
        """One reading of all counters."""
        values: Values = {}
        for read in (self._processors, self._memory, self._stalls, self._throttled, self._traffic.read):
            values.update(read())
        if self.gaps is None:
            self.gaps = self._find_gaps(values)
        return values

    def _find_gaps(self, values: Values) -> list[Gap]:
        gaps = []
        if read_text(self._pressure["io"]) is None:
            why = f"{self._pressure['io']} cannot be read"
            gaps.append(Gap("pressure stall information", why, "boot with psi=1 on Linux 4.20 or later"))
        if "disks" not in values:
            gaps.append(Gap("disk counters", f"{self._proc / 'diskstats'} shows no physical disk"))
        return gaps

    def _processors(self) -> Values:
        lines = [line.split() for line in (read_text(self._proc / "stat") or "").splitlines()]
        cores = {
            words[0]: _core(words[1:]) for words in lines if len(words) > 8 and words[0].startswith("cpu")
        }
        total = cores.pop("cpu", None)
        if total is None:
            return {}
        busy_s, idle_s, iowait_s, steal_s = total
        values: Values = {
            "cpu_busy_s": busy_s,
            "cpu_idle_s": idle_s,
            "cpu_iowait_s": iowait_s,
            "cpu_steal_s": steal_s,
        }
        now = {name: (core[0], sum(core)) for name, core in cores.items()}
        shares = [
            (busy - self._cores[name][0]) / (all_s - self._cores[name][1])
            for name, (busy, all_s) in now.items()
            if name in self._cores and all_s > self._cores[name][1]
        ]
        self._cores = now
        if shares:  # a gauge: the busiest core since the last reading
            values["busiest_core_share"] = min(1.0, max(0.0, *shares, 0.0))
        return values

    def _memory(self) -> Values:
        available = _counter("MemAvailable:", read_text(self._proc / "meminfo"))
        moved = read_text(self._proc / "vmstat")
        found = {
            "memory_available_bytes": None if available is None else available * 1024,
            "swap_in_bytes": _pages("pswpin", moved),
            "swap_out_bytes": _pages("pswpout", moved),
            "refault_bytes": _pages("workingset_refault_file", moved),
            "memory_limit_hits": memory_limit_hits(self._cgroups),
            "cgroup_memory_bytes": memory_used_bytes(self._cgroups),
            "shm_free_bytes": shm_free_bytes(self._root),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _stalls(self) -> Values:
        values: Values = {}
        for resource, file in self._pressure.items():
            for kind, total in re.findall(r"^(some|full) .*total=(\d+)", read_text(file) or "", re.MULTILINE):
                values[f"pressure_{resource}_{kind}_s"] = int(total) / 1e6
        if values:
            values["pressure_scope"] = self._pressure_scope
        return values

    def _throttled(self) -> Values:
        counts = throttling(self._cgroups)
        if counts is None:
            return {}
        return {
            "quota_periods": counts.periods,
            "throttled_periods": counts.throttled,
            "throttled_s": counts.throttled_s,
        }


def _core(words: list[str]) -> tuple[float, float, float, float]:
    """Busy, idle, iowait and steal seconds. Guest time is inside user time already."""
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) / TICKS_PER_S for word in words[:8])
    return user + nice + system + irq + softirq, idle, iowait, steal


def _pages(name: str, text: str | None) -> int | None:
    """A count of pages from vmstat, in bytes."""
    count = _counter(name, text)
    return None if count is None else count * PAGE_BYTES


def _counter(name: str, text: str | None) -> int | None:
    """One line of meminfo or vmstat; parsing all of their two hundred at every reading would cost more."""
    _, found, rest = (text or "").partition(f"\n{name} ")
    word = rest.split(maxsplit=1)[:1] if found else []
    return int(word[0]) if word and word[0].isdigit() else None
