"""What a run leaves in its folder for others: where it is, whether it lives, what watchers are handed."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.codec import decode_live, encode_live
from ..model.run import Announcement, Ending, Handover, Lifetime
from .command import RUN
from .folder import PREFIX, usual_places

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


def machine_here() -> str:
    """This boot and this pid namespace: a shared folder may hold runs of other machines and containers."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii", errors="replace") as file:
            boot = file.read().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown"


def _is_ours(found: os.stat_result, is_kind: Callable[[int], bool]) -> bool:
    return is_kind(found.st_mode) and found.st_uid == os.getuid()


WATCHED = "watched"
HANDED_OVER = "handover"
INTEREST_NS = 5_000_000_000  # after which a watcher who touched the file no more is taken to be gone
EVERY_NS = 2_000_000_000
REST = 200  # times what the last handover cost us: never more than half a percent of a core
HANDOVER_BYTES_AT_MOST = 64 << 20


class Watchers:
    """Asks a file's time whether anybody watches. Nothing here raises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._touched = 0
        self._interest_ends_ns = 0
        self._next_ns = 0

    def look(self, now_ns: int, seen: Callable[[], Handover]) -> None:
        """Hand over what was ``seen``, if somebody wants it and it is time."""
        if not self._are_there(now_ns) or now_ns < self._next_ns:
            return
        began_ns = time.thread_time_ns()
        try:
            replace(self._folder / HANDED_OVER, encode_live(seen()))
        except Exception:  # our bug or a kernel's oddity: the supervisor has more important things to do
            self._next_ns = 1 << 63
            return
        self._next_ns = now_ns + max(EVERY_NS, REST * (time.thread_time_ns() - began_ns))

    def _are_there(self, now_ns: int) -> bool:
        """The wall clock may jump: what counts is that the file's time changed, and when we saw that."""
        try:
            touched = os.stat(self._folder / WATCHED).st_mtime_ns
        except OSError:
            return False
        if touched != self._touched:
            self._touched, self._interest_ends_ns = touched, now_ns + INTEREST_NS
        return now_ns < self._interest_ends_ns


def show_interest(folder: Path) -> None:
    """Tell the supervisor that somebody watches; to be repeated within five seconds."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(folder / WATCHED, flags, 0o600)
    except OSError:
        return
    try:
        os.utime(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def read_handover(folder: Path) -> Handover | None:
    """What the supervisor handed over last; None when it has not yet, or the folder is gone."""
    try:
        with open(folder / HANDED_OVER, "rb") as file:
            return decode_live(file.read(HANDOVER_BYTES_AT_MOST), Handover)
    except OSError:
        return None


ENTRIES_AT_MOST = 100_000  # of one place: a crowded /tmp must not cost seconds
DEPTH_AT_MOST = 64


@dataclass(frozen=True)
class Running:
    """A run folder with its announcement. Without its supervisor it is ``orphaned``: killed, left behind."""

    folder: Path
    announcement: Announcement
    orphaned: bool = False


def find_runs(places: Sequence[str] | None = None) -> list[Running]:
    """The runs of this user on this machine and in this container, oldest first."""
    folders = [path for place in (usual_places() if places is None else places) for path in _folders(place)]
    if places is None:
        folders += _named_by_processes()
    found = [run for path in dict.fromkeys(map(os.path.realpath, folders)) if (run := look(Path(path)))]
    return sorted(found, key=lambda run: run.announcement.origin_ns)


def leavings() -> list[Running]:
    """What may be swept: runs where run folders lie by themselves, not where the user stands."""
    return find_runs([place for place in usual_places() if place != os.curdir])


def look(folder: Path) -> Running | None:
    """The run in this folder; None when there is none, or it is of another user, machine or container."""
    said = read_announcement(folder)
    if said is None or said.place != machine_here():
        return None
    return Running(folder, said, orphaned=not lives(said.supervisor))


def lives(one: Lifetime | None) -> bool:
    """Whether this very process still runs."""
    return one is not None and lifetime(one.pid) == one


def matching(runs: Sequence[Running], wanted: str) -> list[Running]:
    """Those meant: by the pid of bdoc or of a process below it, by folder, by a part of the command."""
    if wanted.isascii() and wanted.isdigit():
        family = _ancestors(int(wanted))
        below = [run for run in runs if run.announcement.supervisor.pid in family]
        named = [] if below else _folder_named_by(int(wanted))
        return below or [run for run in runs if str(run.folder) in named]
    folder = os.path.realpath(wanted)
    machine_here = [run for run in runs if str(run.folder) == folder]
    return machine_here or [run for run in runs if wanted in " ".join(run.announcement.command)]


def sweep(runs: Sequence[Running]) -> list[Path]:
    """Remove what killed supervisors left, where no process writes to it any more; what was removed."""
    dead = [run for run in runs if run.orphaned and not is_written(run)]
    for run in dead:
        shutil.rmtree(run.folder, ignore_errors=True)
    return [run.folder for run in dead]


def is_written(run: Running) -> bool:
    """Whether a process of the run may still write there: the script itself, or one that has it mapped."""
    if lives(run.announcement.training):
        return True
    try:
        names = [name for name in os.listdir(run.folder) if name.endswith(".rows")]
    except OSError:
        return True
    return any(_has_mapped(name.partition("-")[0], str(run.folder)) for name in names)


def _has_mapped(pid: str, folder: str) -> bool:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
            return any(folder in line for line in maps)
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:  # not ours to read: then it may
        return True


def _folders(place: str) -> list[str]:
    found = []
    try:
        with os.scandir(place) as entries:
            for count, entry in enumerate(entries):
                if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                    found.append(entry.path)
                if count >= ENTRIES_AT_MOST:
                    break
    except OSError:
        pass
    return found


def _named_by_processes() -> list[str]:
    """Folders in places of their own: a job may have another TMPDIR than the terminal that watches it."""
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []
    return [folder for pid in pids for folder in _folder_named_by(pid)]


def _folder_named_by(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return []
    start = f"{RUN}=".encode()
    return [os.fsdecode(entry[len(start) :]) for entry in entries if entry.startswith(start)][:1]


def _ancestors(pid: int) -> list[int]:
    """The process, its parent, and so on."""
    family: list[int] = []
    while pid > 0 and len(family) < DEPTH_AT_MOST and (fields := stat_of(pid)):
        family.append(pid)
        pid = int(fields[1])
    return family
