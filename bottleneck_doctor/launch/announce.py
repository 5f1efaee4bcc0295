"""What a run leaves in its folder so that others find it, know whether it lives, and learn how it ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from ..model.codec import decode_live, encode_live
from ..model.live import Announcement, Ending, Lifetime

NAME = "run.json"
ENDED = "ended.json"
BYTES_AT_MOST = 1 << 20


def announce(folder: Path, announcement: Announcement) -> None:
    """Say that this run is there; again when more is known. What cannot be written is not said."""
    replace(folder / NAME, encode_live(announcement))
    if not (folder / ENDED).exists():
        replace(folder / ENDED, b"")  # whoever holds this open learns the end, though the folder be gone


def announce_end(folder: Path, ending: Ending) -> None:
    """Say how it ended, into the very file that watchers hold open."""
    try:
        handle = os.open(folder / ENDED, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(handle, encode_live(ending))
    except OSError:
        pass
    finally:
        os.close(handle)


def read_announcement(folder: Path) -> Announcement | None:
    """What the run in this folder says of itself; None for a stranger's folder, a link, or anything torn."""
    try:
        if not _is_ours(os.lstat(folder), stat.S_ISDIR):
            return None
        handle = os.open(folder / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(handle, "rb") as file:
        try:
            ours = _is_ours(os.fstat(handle), stat.S_ISREG)
            return decode_live(file.read(BYTES_AT_MOST), Announcement) if ours else None
        except OSError:
            return None


def read_ending(handle: int) -> Ending | None:
    """How the run ended, from its open file; None while it goes on."""
    try:
        return decode_live(os.pread(handle, BYTES_AT_MOST, 0), Ending)
    except OSError:
        return None


def hold_ending(folder: Path) -> int | None:
    """The file that will say how the run ended, open; None when the folder is gone already."""
    try:
        return os.open(folder / ENDED, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def replace(path: Path, data: bytes) -> bool:
    """Write a file of the run folder (0600) at once; False when that was not possible."""
    draft = f"{path}.part"
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(draft, path)
        except OSError:
            os.unlink(draft)  # what a full disk took half of is in nobody's way
            return False
    except OSError:
        return False
    return True


def lifetime(pid: int) -> Lifetime | None:
    """The process that has this pid now; None when there is none, or only its remains."""
    fields = stat_of(pid)
    return Lifetime(pid, int(fields[19])) if fields and fields[0] not in "ZX" else None


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from its state on; none when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return []
    return fields if len(fields) > 19 else []


def here() -> str:
    """This boot and this pid namespace: a shared folder may hold runs of other machines and containers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii", errors="replace") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown"


def _is_ours(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(found.st_mode) and found.st_uid == os.getuid()
