"""What a trial's processes were seen to hold: blocks of shared memory, and sockets. Only that is removed.

A name alone proves nothing: containers that share /dev/shm with us hold blocks there, by processes that we
cannot see. What lived for less than the time between two looks, and crashed by itself, is left where it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

SHM = "/dev/shm/"
SOCKETS = "/proc/net/unix"  # of our network's namespace
PREFIX = "pymp-"  # of the folders where multiprocessing puts its sockets
LINKS_AT_MOST = 4096  # open files of one process


@dataclass
class Traces:
    """``pids`` of its processes, ``blocks`` by inode, ``folders`` of sockets by path."""

    pids: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def note(self, pids: Iterable[int]) -> None:
        """Look at these processes now."""
        sockets = bound_sockets()
        for pid in pids:
            self.pids.add(pid)
            self.blocks |= held_blocks(pid)
            for _, link in _links(pid):
                if path := sockets.get(link):
                    self.folders.add(os.path.dirname(path))


def held_blocks(pid: int | str) -> set[int]:
    """The inodes of the blocks that a process has mapped or open; none where we may not look. A semaphore is
    mapped under another name than it gets, so names would not do."""
    held = set()
    for number, link in _links(pid):
        if link.startswith(SHM):
            with suppress(OSError):
                held.add(os.stat(f"/proc/{pid}/fd/{number}").st_ino)
    with suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        held |= {int(line.split(maxsplit=5)[4]) for line in lines if SHM in line}
    return held


def bound_sockets() -> dict[str, str]:
    """Of the sockets that multiprocessing has bound: what a descriptor's link says, and the path."""
    with suppress(OSError), open(SOCKETS, encoding="utf-8", errors="replace") as lines:
        fields = [line.split(maxsplit=7) for line in lines if PREFIX in line]
        return {f"socket:[{one[6]}]": one[7].strip() for one in fields if len(one) == 8}
    return {}


def _links(pid: int | str) -> list[tuple[str, str]]:
    """The numbers of its descriptors, and what each leads to."""
    links = []
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for count, entry in enumerate(entries):
            if count >= LINKS_AT_MOST:
                break
            with suppress(OSError):
                links.append((entry.name, os.readlink(entry.path)))
    return links
