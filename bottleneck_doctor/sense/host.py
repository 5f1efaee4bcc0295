"""Finds the control groups of a process, in every layout, and what they allow: the tightest group wins.

Reads the machine's counters: processors, memory, stalls, throttling and disks, all cumulative.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ..model.run import Gap
from .files import PAGE_BYTES, TICKS_PER_S, Mount, read_mounts, read_number, read_pairs, read_text


@dataclass(frozen=True)
class Cgroups:
    """The groups of one process. Each list runs from its own group to the topmost one that is visible."""

    kind: str  # v1, v2, hybrid or none
    unified: list[Path] = field(default_factory=list)
    controllers: dict[str, list[Path]] = field(default_factory=dict)


def find_cgroups(root: Path = Path("/"), pid: int | str = "self") -> Cgroups:
    """The groups of ``pid``; kind ``none`` when no cgroup file system can be seen."""
    own = _memberships(read_text(root / "proc" / str(pid) / "cgroup") or "")
    unified: list[Path] = []
    controllers: dict[str, list[Path]] = {}
    for mount in read_mounts(root, pid):
        if mount.fstype == "cgroup2" and not unified:
            unified = _lineage(root, mount, own.get("", "/"))
        elif mount.fstype == "cgroup":
            for name in set(mount.options) & own.keys() - controllers.keys():
                controllers[name] = _lineage(root, mount, own[name])
    kind = {(True, True): "hybrid", (True, False): "v2", (False, True): "v1", (False, False): "none"}
    # systemd's own v1 hierarchy carries no controller and does not make a v2 machine hybrid.
    return Cgroups(kind[bool(unified), bool(controllers)], unified, controllers)


def groups_with(cgroups: Cgroups, controller: str, v2_file: str, v1_file: str) -> list[Path]:
    """The files that exist, nearest group first: v1's where the controller lives there, else v2's."""
    files = [group / v1_file for group in cgroups.controllers.get(controller, [])]
    files = [file for file in files if file.exists()]
    return files or [group / v2_file for group in cgroups.unified if (group / v2_file).exists()]


def _memberships(text: str) -> dict[str, str]:
    """Controller (``""`` for v2) to group path, from /proc/<pid>/cgroup."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers.startswith("name="):
            continue
        for name in controllers.split(","):
            own[name] = path
    return own


def _lineage(root: Path, mount: Mount, path: str) -> list[Path]:
    """The group's folder and its ancestors' up to the mount point."""
    top = root / mount.point.lstrip("/")
    relative = _below(PurePosixPath(path), PurePosixPath(mount.root))
    folder = top / relative if relative is not None else top
    if not folder.is_dir():
        # Inside a container the path names a group of the host that this mount does not show.
        folder = top
    return [folder, *(one for one in folder.parents if one.is_relative_to(top))]


def _below(path: PurePosixPath, mount_root: PurePosixPath) -> PurePosixPath | None:
    """``path`` relative to what is mounted; None for a group outside of it (``/../..``)."""
    if ".." in path.parts:
        return None
    if path.is_relative_to(mount_root):
        return path.relative_to(mount_root)
    return path.relative_to("/") if path.is_absolute() else None


UNLIMITED_BYTES = 1 << 60  # v1 writes "no limit" as the largest page-aligned number


def quota_cores(cgroups: Cgroups) -> float | None:
    """Cores that the tightest CPU quota grants, None without a quota."""
    return min((cores for cores, _ in _quotas(cgroups)), default=None)


def memory_limit_bytes(cgroups: Cgroups) -> int | None:
    """The tightest memory limit. memory.high counts: above it the kernel drops the page cache."""
    limits = [
        limit
        for name in ("memory.max", "memory.high")
        for file in groups_with(cgroups, "memory", name, "memory.limit_in_bytes")
        if (limit := read_number(file)) is not None and limit < UNLIMITED_BYTES
    ]
    return min(limits, default=None)


def memory_limit_hits(cgroups: Cgroups) -> int | None:
    """How often the nearest group hit its memory limit, so that pages were reclaimed."""
    files = groups_with(cgroups, "memory", "memory.events", "memory.failcnt")
    if not files:
        return None
    counts = read_pairs(files[0])
    return counts["max"] + counts.get("high", 0) if "max" in counts else read_number(files[0])


def read_limits(cgroups: Cgroups) -> tuple[float | None, float | None]:
    """Bytes and operations per second: the smallest read throttles that any group sets on any disk."""
    found: dict[str, list[str]] = {"rbps": [], "riops": []}
    for group in cgroups.controllers.get("blkio", []):
        for name, file in (("rbps", "read_bps_device"), ("riops", "read_iops_device")):
            lines = (read_text(group / f"blkio.throttle.{file}") or "").splitlines()
            found[name] += [line.split()[1] for line in lines if len(line.split()) == 2]  # major:minor rate
    for group in cgroups.unified:
        for line in (read_text(group / "io.max") or "").splitlines():
            for word in line.split():
                name, _, limit = word.partition("=")
                found.get(name, []).append(limit)
    bytes_per_s, operations_per_s = (
        min((float(word) for word in words if word.isdigit() and int(word) > 0), default=None)
        for words in found.values()
    )
    return bytes_per_s, operations_per_s


def throttling(cgroups: Cgroups) -> tuple[int, int] | None:
    """Periods of the tightest quota, and in how many it stopped the job; None where no group counts them."""
    quotas = sorted(_quotas(cgroups), key=lambda quota: quota[0])
    files = [folder / "cpu.stat" for _, folder in quotas]
    for file in files or groups_with(cgroups, "cpu", "cpu.stat", "cpu.stat"):
        counts = read_pairs(file)
        if "nr_periods" in counts:
            return counts["nr_periods"], counts.get("nr_throttled", 0)
    return None


def pressure_folder(cgroups: Cgroups) -> Path | None:
    """The job's own group with pressure files; None in the root group, whose files are the machine's."""
    for group in cgroups.unified[:1]:
        if (group / "cgroup.type").exists() and (group / "cpu.pressure").exists():
            return group
    return None


def _quotas(cgroups: Cgroups) -> list[tuple[float, Path]]:
    """Cores and folder of every group with a quota."""
    quotas = []
    for file in groups_with(cgroups, "cpu", "cpu.max", "cpu.cfs_quota_us"):
        if file.name == "cpu.max":
            words = (read_text(file) or "").split()
        else:
            words = [str(read_number(file)), str(read_number(file.with_name("cpu.cfs_period_us")))]
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            quotas.append((int(words[0]) / int(words[1]), file.parent))
    return [quota for quota in quotas if quota[0] > 0]


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
            "oom_kills": _counter("oom_kill", moved),
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


def shm_free_bytes(root: Path = Path("/")) -> int | None:
    """Room in /dev/shm, through which loader workers hand over their batches."""
    try:
        room = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return room.f_bavail * room.f_frsize


def affinity_cores() -> int:
    """Cores in this process's mask (taskset, cpuset)."""
    return len(os.sched_getaffinity(0))
