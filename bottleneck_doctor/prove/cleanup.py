"""What a trial's processes were seen to hold: blocks of shared memory, and sockets. Only that is removed.

A name alone proves nothing: containers that share /dev/shm with us hold blocks there, by processes that we
cannot see. What lived for less than the time between two looks, and crashed by itself, is left where it is.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Container, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

SHM = "/dev/shm/"
SOCKETS = "/proc/net/unix"  # of our network's namespace
PREFIX = "pymp-"  # of the folders where multiprocessing puts its sockets
LINKS_AT_MOST = 4096  # open files of one process


@dataclass
class HeldResources:
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


# What torch, multiprocessing, POSIX semaphores and OpenMP name so. A script's own file there is its own.
KNOWN = re.compile(r"(torch_\d+_|psm_|sem\.|__KMP_REGISTERED_LIB_\d+_)")
CREATOR = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_)(\d+)_")
ENTRIES_AT_MOST = 100_000


def blocks(folder: Path = Path(SHM)) -> dict[int, str]:
    """The names of this user's blocks of the kinds that trainings leave, by inode."""
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= ENTRIES_AT_MOST:
                break
            if KNOWN.match(entry.name) and _is_our_file(entry):
                found[entry.inode()] = entry.name
    return found


def remove_blocks(before: Container[int], resources: HeldResources, folder: Path = Path(SHM)) -> list[str]:
    """Remove the blocks that appeared since, where a process of the trial held or made them, and no living
    one holds them; the names of those removed."""
    fresh = {
        inode: name
        for inode, name in blocks(folder).items()
        if inode not in before and (inode in resources.blocks or _made_by(name, resources.pids))
    }
    held = _held_by_anybody() if fresh else ()
    removed = []
    for name in sorted(name for inode, name in fresh.items() if inode not in held):
        with suppress(OSError):
            os.unlink(folder / name)
            removed.append(name)
    return removed


def remove_folders(resources: HeldResources) -> list[str]:
    """Remove the folders that hold nothing but sockets of the trial that nobody has bound any more."""
    bound = set(bound_sockets().values())
    removed = []
    for folder in sorted(resources.folders):
        with suppress(OSError):
            inside = list(Path(folder).iterdir())
            dead = all(path.is_socket() and str(path) not in bound for path in inside)
            if dead and os.path.basename(folder).startswith(PREFIX):
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def _is_our_file(entry: os.DirEntry[str]) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
        return entry.is_file(follow_symlinks=False) and found.st_uid == os.getuid()
    except OSError:
        return False


def _made_by(name: str, pids: set[int]) -> bool:
    """Whether a process of the trial that is gone made it."""
    creator = CREATOR.match(name)
    return creator is not None and int(creator[1]) in pids and not os.path.exists(f"/proc/{creator[1]}")


def _held_by_anybody() -> set[int]:
    held: set[int] = set()
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            held |= held_blocks(pid)
    return held
