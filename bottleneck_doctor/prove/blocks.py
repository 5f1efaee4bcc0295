"""Blocks of shared memory that a trial left: found by comparing, removed only where nobody has them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

FOLDER = Path("/dev/shm")
ENTRIES_AT_MOST = 100_000

# What torch, multiprocessing, POSIX semaphores and OpenMP name so. A script's own file there is its own.
OURS = re.compile(r"(torch_\d+_|psm_|sem\.|__KMP_REGISTERED_LIB_\d+)")
CREATOR = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_)(\d+)_")


def found(folder: Path = FOLDER) -> frozenset[str]:
    """The names of this user's blocks of the kinds that trainings leave."""
    names = []
    with suppress(OSError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= ENTRIES_AT_MOST:
                break
            if OURS.match(entry.name) and _is_ours(entry):
                names.append(entry.name)
    return frozenset(names)


def sweep(before: frozenset[str], folder: Path = FOLDER) -> list[str]:
    """Remove the blocks that appeared since, where no living process has them mapped or open, nor is the one
    that made them alive; the names of those removed."""
    fresh = {name for name in found(folder) - before if not _creator_lives(name)}
    if not fresh:
        return []
    removed = []
    for name in sorted(fresh - _held(fresh, folder)):
        with suppress(OSError):
            os.unlink(folder / name)
            removed.append(name)
    return removed


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        return (
            entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
        )
    except OSError:
        return False


def _creator_lives(name: str) -> bool:
    creator = CREATOR.match(name)
    return creator is not None and os.path.exists(f"/proc/{creator[1]}")


def _held(names: set[str], folder: Path) -> set[str]:
    """Those of the blocks that some process has mapped or open, as far as we may look: the blocks are ours,
    and so is whoever could open them, root left out.

    Told by the inode: a semaphore is mapped before it gets its name, and listed by another, deleted one."""
    inodes: dict[int, str] = {}
    for name in names:
        with suppress(OSError):
            inodes[os.stat(folder / name).st_ino] = name
    held: set[int] = set()
    for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
        with suppress(OSError):
            held |= _mapped(pid, str(folder))
        with suppress(OSError):
            held |= _open(pid, str(folder))
    return {name for inode, name in inodes.items() if inode in held}


def _mapped(pid: str, folder: str) -> set[int]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        return {int(line.split(None, 5)[4]) for line in lines if folder + "/" in line}


def _open(pid: str, folder: str) -> set[int]:
    inodes = set()
    with os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                if os.readlink(entry.path).startswith(folder + "/"):
                    inodes.add(os.stat(entry.path).st_ino)
    return inodes
