"""Finds the runs of this user: which live, which lost their supervisor, and which is meant."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.live import Announcement, Lifetime
from . import announce
from .environment import RUN
from .folder import PREFIX, usual_places

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
    said = announce.read_announcement(folder)
    if said is None or said.place != announce.here():
        return None
    return Running(folder, said, orphaned=not lives(said.supervisor))


def lives(one: Lifetime | None) -> bool:
    """Whether this very process still runs."""
    return one is not None and announce.lifetime(one.pid) == one


def matching(runs: Sequence[Running], wanted: str) -> list[Running]:
    """Those meant: by the pid of bdoc or of a process below it, by folder, by a part of the command."""
    if wanted.isascii() and wanted.isdigit():
        family = _ancestors(int(wanted))
        below = [run for run in runs if run.announcement.supervisor.pid in family]
        named = [] if below else _folder_named_by(int(wanted))
        return below or [run for run in runs if str(run.folder) in named]
    folder = os.path.realpath(wanted)
    here = [run for run in runs if str(run.folder) == folder]
    return here or [run for run in runs if wanted in " ".join(run.announcement.command)]


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
    while pid > 0 and len(family) < DEPTH_AT_MOST and (fields := announce.stat_of(pid)):
        family.append(pid)
        pid = int(fields[1])
    return family
