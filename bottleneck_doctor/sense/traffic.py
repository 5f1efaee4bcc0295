"""Reads how much went over the machine's disks, links and NFS mounts since it started."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from .reading import read_text

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
