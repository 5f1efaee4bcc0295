"""What a run leaves in its folder for others: where it is, whether it lives, its snapshots for watchers."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from ..agent.wire import is_ours, open_ours
from ..model.codec import Live, decode_live, encode_live
from ..model.run import Announcement, Ending, Lifetime, Snapshot
from .start import FOLDER_PREFIX, RUN, usual_places

NAME = "run.json"
ENDED = "ended.json"
BYTES_AT_MOST = 1 << 20


def announce(folder: Path, announcement: Announcement) -> None:
    """Announce this run; again when more is known. A failure to write is ignored."""
    replace(folder / NAME, encode_live(announcement))
    if not (folder / ENDED).exists():
        replace(folder / ENDED, b"")  # a reader that holds it open learns the end after the folder is gone


def announce_end(folder: Path, ending: Ending) -> None:
    """Write how the run ended into the file that watchers hold open."""
    with suppress(OSError), _open(folder / ENDED, "wb", os.O_WRONLY) as file:
        file.write(encode_live(ending))


def read_announcement(folder: Path) -> Announcement | None:
    """The announcement of the run in this folder; None for another user's folder, a link, or a torn file."""
    return _read(folder / NAME, Announcement, BYTES_AT_MOST) if is_ours(folder) else None


def _read(path: Path, kind: type[Live], bytes_at_most: int) -> Live | None:
    """The file's contents, decoded; None without a file of this user's."""
    with suppress(OSError, ValueError), _open(path, "rb", os.O_RDONLY) as file:
        return decode_live(file.read(bytes_at_most), kind)
    return None


def _open(path: Path | str, mode: str, flags: int) -> IO[bytes]:
    return os.fdopen(open_ours(path, flags), mode)


def read_ending(handle: int) -> Ending | None:
    """How the run ended, from its open file; None while it goes on."""
    with suppress(OSError):
        return decode_live(os.pread(handle, BYTES_AT_MOST, 0), Ending)
    return None


def hold_ending(folder: Path) -> int | None:
    """The file that will say how the run ended, open; None when the folder is gone already."""
    with suppress(OSError):
        return open_ours(folder / ENDED, os.O_RDONLY)
    return None


def replace(path: Path, data: bytes) -> bool:
    """Write a file of the run folder (0600) at once; False when that was not possible."""
    draft = f"{path}.part"
    try:
        file = _open(draft, "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            with file:
                file.write(data)
            os.replace(draft, path)
        except OSError:
            os.unlink(draft)  # a full disk leaves no half-written file
            return False
    except OSError:
        return False
    return True


def lifetime(pid: int) -> Lifetime | None:
    """The process that has this pid now; None when there is none, or only a zombie."""
    fields = stat_of(pid)
    return Lifetime(pid, int(fields[19])) if fields and fields[0] not in "ZX" else None


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/<pid>/stat from its state on; none when it is gone."""
    with suppress(OSError), open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
        return fields if len(fields) > 19 else []
    return []


def machine_here() -> str:
    """This boot and this pid namespace: a shared folder may hold runs of other machines and containers."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    return "unknown"


ASKED = "asked"  # a watcher touches this file for each snapshot that it wants
SNAPSHOT = "snapshot"
EVERY_NS = 2_000_000_000
REST = 200  # times what the last snapshot cost: at most half a percent of a core
SNAPSHOT_BYTES_AT_MOST = 64 << 20


class SnapshotWriter:
    """The supervisor's side of ``ask_for_snapshot``. Nothing here raises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._answered = 0
        self._next_ns = 0

    def look(self, now_ns: int, take: Callable[[], Snapshot]) -> None:
        """Write a snapshot, if one was asked for since the last and it is time."""
        try:
            asked = os.stat(self._folder / ASKED).st_mtime_ns
        except OSError:
            return
        if asked == self._answered or now_ns < self._next_ns:
            return
        began_ns = time.thread_time_ns()
        try:
            replace(self._folder / SNAPSHOT, encode_live(take()))
        except Exception:  # the training goes on whatever fails here, and so does the supervisor
            self._next_ns = 1 << 63
            return
        self._answered = asked
        self._next_ns = now_ns + max(EVERY_NS, REST * (time.thread_time_ns() - began_ns))


def ask_for_snapshot(folder: Path) -> None:
    """The supervisor answers within a quarter of a second, or as soon as two seconds have passed."""
    with suppress(OSError), _open(folder / ASKED, "wb", os.O_WRONLY | os.O_CREAT) as file:
        os.utime(file.fileno())


def read_snapshot(folder: Path) -> Snapshot | None:
    """The newest one; None where there is none yet, or the folder is gone."""
    return _read(folder / SNAPSHOT, Snapshot, SNAPSHOT_BYTES_AT_MOST)


ENTRIES_AT_MOST = 100_000  # of one folder: a full /tmp must not cost seconds
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
        with suppress(OSError):  # a job may have another TMPDIR than the terminal that watches it
            pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
            folders += [one for pid in pids for one in _folder_named_by(pid)]
    found = [run for path in dict.fromkeys(map(os.path.realpath, folders)) if (run := look(Path(path)))]
    return sorted(found, key=lambda run: run.announcement.origin_ns)


def leavings() -> list[Running]:
    """What may be swept: runs where run folders lie by themselves, not where the user stands."""
    return find_runs([place for place in usual_places() if place != os.curdir])


def look(folder: Path) -> Running | None:
    """The run in this folder; None when there is none, or it is of another user, machine or container."""
    found = read_announcement(folder)
    if found is None or found.place != machine_here():
        return None
    return Running(folder, found, orphaned=not lives(found.supervisor))


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
    in_folder = [run for run in runs if str(run.folder) == folder]
    return in_folder or [run for run in runs if wanted in " ".join(run.announcement.command)]


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
    except OSError:  # another user's process: it may have
        return True


def _folders(place: str) -> list[str]:
    with suppress(OSError), os.scandir(place) as entries:
        some = [one for one in islice(entries, ENTRIES_AT_MOST) if one.name.startswith(FOLDER_PREFIX)]
        return [one.path for one in some if one.is_dir(follow_symlinks=False)]
    return []


def _folder_named_by(pid: int) -> list[str]:
    start = f"{RUN}=".encode()
    with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        entries = file.read().split(b"\0")
        return [os.fsdecode(entry[len(start) :]) for entry in entries if entry.startswith(start)][:1]
    return []


def _ancestors(pid: int) -> list[int]:
    """The process, its parent, and so on."""
    family: list[int] = []
    while pid > 0 and len(family) < DEPTH_AT_MOST and (fields := stat_of(pid)):
        family.append(pid)
        pid = int(fields[1])
    return family
