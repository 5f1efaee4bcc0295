"""Tells on which file system and on which kind of disk a path lives."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .reading import read_number, read_text

NETWORK_TYPES = frozenset(
    "nfs nfs4 cifs smb3 smbfs ceph lustre 9p glusterfs beegfs gpfs afs orangefs pvfs2 wekafs davfs virtiofs "
    "fuse ocfs2 gfs2 ncpfs coda".split()
)
LOCAL_FUSE = frozenset(
    "fuseblk fuse.fuse-overlayfs fuse.lxcfs fuse.encfs fuse.gocryptfs fuse.ntfs-3g".split()
)
MEMORY_TYPES = frozenset(("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"))

# Their rotational flag is the hypervisor's guess: virtio disks say 1 whatever lies beneath.
VIRTUAL_NAME = re.compile(r"^(vd|xvd|nbd|rbd|drbd|loop|ram|zram|ublk|pmem)")
VIRTUAL_MODEL = re.compile(
    r"qemu|vmware|virtual|vbox|msft|elastic block|persistentdisk|nvme_card-pd", re.IGNORECASE
)
DEEPEST_STACK = 8


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo. ``root`` is the part of the file system that is mounted at ``point``."""

    point: str
    fstype: str
    device: str
    number: str = ""
    root: str = "/"
    options: tuple[str, ...] = ()


def read_mounts(root: Path = Path("/"), pid: int | str = "self") -> list[Mount]:
    """The mount table as ``pid`` sees it, in the order of mounting; empty when unreadable."""
    lines = (read_text(root / "proc" / str(pid) / "mountinfo") or "").splitlines()
    return [mount for line in lines if (mount := _parse(line)) is not None]


def mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that holds ``path``; of several on one point the last, which hides the others."""
    held = [mount for mount in mounts if _holds(mount.point, path)]
    return max(enumerate(held), key=lambda one: (len(one[1].point), one[0]))[1] if held else None


def local_first(places: Sequence[str], root: Path = Path("/")) -> list[str]:
    """The places in their order, those on a network's file system behind the others: a file that is mapped
    there waits for a server."""
    mounts = read_mounts(root)

    def is_remote(place: str) -> bool:
        try:
            mount = mount_of(os.path.realpath(place), mounts)
        except OSError:  # a relative one, and the present folder is gone
            return False
        return mount is not None and is_network(mount.fstype)

    return sorted(places, key=is_remote)


def is_network(fstype: str) -> bool:
    """Whether reading there goes over a wire or through a user-space server."""
    return fstype in NETWORK_TYPES or (fstype.startswith("fuse.") and fstype not in LOCAL_FUSE)


def rotational(mount: Mount, root: Path = Path("/")) -> bool | None:
    """Whether a spinning disk lies beneath; None when unknown, as for virtual disks and networks."""
    number = mount.number
    if number.startswith("0:"):  # btrfs and overlay show an anonymous device: ask their source instead
        number = _device_number(mount.device)
    return _rotates(root / "sys/dev/block" / number, DEEPEST_STACK) if number else None


def _parse(line: str) -> Mount | None:
    left, dash, right = line.partition(" - ")
    words, types = left.split(), right.split(" ")
    if not dash or len(words) < 5 or len(types) < 2:
        return None
    options = tuple(types[2].split(",")) if len(types) > 2 else ()
    return Mount(_unescape(words[4]), types[0], _unescape(types[1]), words[2], _unescape(words[3]), options)


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)


def _holds(point: str, path: str) -> bool:
    return path == point or path.startswith(point.rstrip("/") + "/")


def _device_number(device: str) -> str:
    try:
        number = os.stat(device).st_rdev if device.startswith("/dev/") else 0
    except OSError:
        return ""
    return f"{os.major(number)}:{os.minor(number)}" if number else ""


def _rotates(link: Path, depth: int) -> bool | None:
    """Follows a partition to its disk and a mapped device to the disks below."""
    try:
        device = link.resolve(strict=True)
    except OSError:
        return None
    if (device / "partition").exists():
        device = device.parent
    slaves = sorted((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
    if slaves and depth:
        answers = [_rotates(slave, depth - 1) for slave in slaves]
        return None if None in answers else any(answers)
    if VIRTUAL_NAME.match(device.name) or VIRTUAL_MODEL.search(_model(device)):
        return None
    flag = read_number(device / "queue/rotational")
    return None if flag is None else bool(flag)


def _model(device: Path) -> str:
    return " ".join(read_text(device / "device" / name) or "" for name in ("vendor", "model"))
