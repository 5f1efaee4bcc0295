"""Finds the control groups that hold a process, in v1, v2, hybrid and namespaced layouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .mounts import Mount, read_mounts
from .reading import read_text

DEEPEST = 64


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
    lineage = [folder]
    while lineage[-1] != top and len(lineage) < DEEPEST:
        lineage.append(lineage[-1].parent)
    return lineage


def _below(path: PurePosixPath, mount_root: PurePosixPath) -> PurePosixPath | None:
    """``path`` relative to what is mounted; None for a group outside of it (``/../..``)."""
    if ".." in path.parts:
        return None
    if path.is_relative_to(mount_root):
        return path.relative_to(mount_root)
    return path.relative_to("/") if path.is_absolute() else None
