"""Resolves a descriptor of another process to a file, socket or pipe, and remembers the answer briefly."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from .channels import Descriptor
from .mounts import Mount, is_network, mount_of
from .reading import read_text

KEEP_LINK_NS = 100_000_000  # a loader that opens a file per sample reuses the number at once
KEEP_SOCKETS_NS = 1_000_000_000
MOST_REMEMBERED = 512
MOST_DESCRIPTORS = 1024
INTERNET = ("TCP", "UDP", "MPTCP", "SCTP", "SMC")
LISTENING = "0A"  # a server's socket brings no data by itself


class Descriptors:
    """Looks descriptors up in /proc; every answer is a guess of the moment, and none raises."""

    def __init__(self, mounts: Sequence[Mount], root: Path = Path("/")) -> None:
        self._mounts = mounts
        self._proc = root / "proc"
        self._links: dict[tuple[int, int], tuple[int, Descriptor | None]] = {}
        self._sockets: dict[int, tuple[int, bool]] = {}
        self._connections: dict[str, tuple[int, frozenset[str]]] = {}

    def resolve(self, pid: int, number: int, now_ns: int) -> Descriptor | None:
        """What descriptor ``number`` of ``pid`` leads to; None when it cannot be seen."""
        known = self._links.get((pid, number))
        if known is not None and now_ns - known[0] < KEEP_LINK_NS:
            return known[1]
        if len(self._links) >= MOST_REMEMBERED:
            self._links.clear()
        found = self._look(pid, number, now_ns)
        self._links[pid, number] = (now_ns, found)
        return found

    def has_inet(self, pid: int, now_ns: int) -> bool:
        """Whether ``pid`` holds a connected internet socket, looked up at most once a second."""
        known = self._sockets.get(pid)
        if known is not None and now_ns - known[0] < KEEP_SOCKETS_NS:
            return known[1]
        if len(self._sockets) >= MOST_REMEMBERED:
            self._sockets.clear()
        found = self._look_for_inet(pid, now_ns)
        self._sockets[pid] = (now_ns, found)
        return found

    def _look(self, pid: int, number: int, now_ns: int) -> Descriptor | None:
        link = self._proc / str(pid) / "fd" / str(number)
        try:
            target = os.readlink(link)
        except OSError:
            return None
        if target.startswith("socket:["):
            return Descriptor("inet" if _protocol(link).startswith(INTERNET) else "unix")
        if target.startswith("pipe:["):
            return Descriptor("pipe")
        if not target.startswith("/"):
            return Descriptor("other", target)
        mount = mount_of(target, self._mounts)
        if mount is not None and is_network(mount.fstype):
            return Descriptor("network", target)
        return Descriptor(_kind(link), target)

    def _look_for_inet(self, pid: int, now_ns: int) -> bool:
        held = self._held_internet(pid)
        # The tables cost milliseconds to read, so only who holds an internet socket at all has them read.
        return bool(held) and not held.isdisjoint(self._connected(pid, now_ns))

    def _held_internet(self, pid: int) -> frozenset[str]:
        """Inodes of the internet sockets, listening ones too, among the descriptors of ``pid``."""
        folder = self._proc / str(pid) / "fd"
        try:
            links = [folder / name for name in os.listdir(folder)[:MOST_DESCRIPTORS]]
        except OSError:
            return frozenset()
        targets = ((link, _target(link)) for link in links)
        return frozenset(
            target[8:-1]
            for link, target in targets
            if target.startswith("socket:[") and _protocol(link).startswith(INTERNET)
        )

    def _connected(self, pid: int, now_ns: int) -> frozenset[str]:
        """Inodes of the internet sockets in the process's network namespace, listeners left out."""
        namespace = _target(self._proc / str(pid) / "ns" / "net")
        known = self._connections.get(namespace)
        if known is not None and now_ns - known[0] < KEEP_SOCKETS_NS:
            return known[1]
        found = self._read_connections(pid)
        self._connections = {namespace: (now_ns, found)}  # a job lives in one namespace; two would take turns
        return found

    def _read_connections(self, pid: int) -> frozenset[str]:
        inodes: set[str] = set()
        for name in ("tcp", "tcp6", "udp", "udp6"):
            for line in (read_text(self._proc / str(pid) / "net" / name) or "").splitlines()[1:]:
                words = line.split()
                if len(words) > 9 and words[3] != LISTENING:
                    inodes.add(words[9])
        return frozenset(inodes)


def _protocol(link: Path) -> str:
    """The socket's protocol as the kernel names it: TCP, TCPv6, UDP, UNIX-STREAM and so on."""
    try:
        return os.getxattr(link, "system.sockprotoname").decode("ascii", "replace").rstrip("\0")
    except OSError:
        return ""


def _target(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _kind(link: Path) -> str:
    try:
        mode = os.stat(link).st_mode
    except OSError:
        return "file"  # deleted or out of our sight, but it had a path
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return "file"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "block" if stat.S_ISBLK(mode) else "other"
