"""Removes what the dead of a trial could not: blocks of shared memory, and folders of sockets."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Container
from contextlib import suppress
from pathlib import Path

from .traces import PREFIX, SHM, Traces, bound_sockets, held_blocks

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


def sweep_blocks(before: Container[int], traces: Traces, folder: Path = Path(SHM)) -> list[str]:
    """Remove the blocks that appeared since, where a process of the trial held or made them, and no living
    one holds them; the names of those removed."""
    fresh = {
        inode: name
        for inode, name in blocks(folder).items()
        if inode not in before and (inode in traces.blocks or _made_by(name, traces.pids))
    }
    held = _held_by_anybody() if fresh else ()
    removed = []
    for name in sorted(name for inode, name in fresh.items() if inode not in held):
        with suppress(OSError):
            os.unlink(folder / name)
            removed.append(name)
    return removed


def sweep_folders(traces: Traces) -> list[str]:
    """Remove the folders that hold nothing but sockets of the trial that nobody has bound any more."""
    bound = set(bound_sockets().values())
    removed = []
    for folder in sorted(traces.folders):
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
