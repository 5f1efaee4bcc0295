"""Finds the control groups of a process, in every layout, and what they allow: the tightest group wins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .files import Mount, read_mounts
from .proc_files import read_number, read_pairs, read_text


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
