"""Puts a user's files aside before a trial overwrites, replaces or deletes them, and lists where they lie.

Loaded only where ``bdoc prove`` asks for it (``BDOC_KEEP``). An audit hook hears of opens, renames and
deletions before they happen; what torch and safetensors write without Python is met at their functions.
Databases and what other programs write are not seen.

The files go to a hidden folder on their own file system, in the folder where the command was given or,
failing that, above them: never next to them, where a script that lists or removes its folder would meet
them. Each is written into the trial's list before it is touched; ``prove/put_back_files.py`` reads the list,
last line first.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import sys
import threading
from contextlib import contextmanager

from ..hints import Any, Callable, Iterator, Table
from ..state import state
from ..wire import is_ours
from .hook_points import at_saving

WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC  # what is opened anew, by whatever means
NOT_FILES = ("/dev/", "/proc/", "/sys/", "/run/")


def watch(folder: str) -> Table:
    """Keep files from now on; ``folder`` holds the trial's list of them. Also a table of modules, as
    agent/hooks.py takes them."""
    keeper = _Keeper(folder)
    sys.addaudithook(keeper.hook())
    return at_saving(keeper.before_saving)


class _Keeper:
    """What one process does before it writes."""

    def __init__(self, folder: str) -> None:
        self.kept = BackupList(folder, os.getcwd())
        self.not_theirs = (*NOT_FILES, *(os.path.realpath(one) + "/" for one in (folder, state.folder)))
        self.at_work = threading.local()  # our own opens are heard, too
        makes = self.acting(self.kept.made, False)
        self.acts: dict[str, Callable[..., None]] = {
            "open": self.opens,
            "os.rename": self.renames,
            "os.remove": self.acting(self.kept.before_losing, True),  # ``shutil.rmtree`` comes down to it
            "os.truncate": lambda path, length: self.opens(path, None, os.O_WRONLY),
            "os.mkdir": lambda path, mode, folder: makes(path, folder),
            "os.symlink": lambda source, path, folder: makes(path, folder),
            "os.rmdir": self.acting(self.kept.before_losing_folder, True),
        }

    def hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """The audit hook. Nearly all that it hears is reading; as a plain function, and asking for that
        first, it takes half a microsecond of it, a third of what a method would."""
        acts, quietly, writes = self.acts, self.quietly, WRITES

        def hear(event: str, args: tuple[Any, ...]) -> None:
            if event == "open" and not args[2] & writes:
                return
            if event in acts:
                quietly(acts[event], *args)

        return hear

    def quietly(self, act: Callable[..., None], *args: Any) -> None:
        """Nothing that bdoc does reaches the script, and nothing that it opens is heard."""
        if getattr(self.at_work, "now", False):
            return
        self.at_work.now = True
        try:
            act(*args)
        except Exception:
            pass
        finally:
            self.at_work.now = False

    def before_saving(self, save: Callable[[Any], Any], thing: Any, target: Any) -> Any:
        """``torch.save(thing, path)``, which may write without Python's ``open``."""
        if isinstance(target, (str, os.PathLike)):
            self.quietly(self.opens, target, None, WRITTEN)
        return save(thing)

    def opens(self, path: Any, mode: str | None, flags: int) -> None:
        """A file is about to be opened for writing; what cannot succeed changes nothing."""
        if isinstance(path, int):
            return
        real = os.path.realpath(os.fsdecode(path))
        if not self.is_theirs(real) or (flags & os.O_NOFOLLOW and os.path.islink(path)):
            return
        try:
            found = os.stat(real)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                self.kept.made(real)
            return
        exclusive = flags & os.O_CREAT and flags & os.O_EXCL
        if exclusive or not stat.S_ISREG(found.st_mode) or not os.access(real, os.W_OK):
            return
        self.kept.before_writing(real, found, anew=bool(flags & os.O_TRUNC))

    def renames(self, source: Any, target: Any, source_folder: int = -1, target_folder: int = -1) -> None:
        """``os.rename`` and ``os.replace``."""
        old, new = _whole(source, source_folder), _whole(target, target_folder)
        found = os.lstat(old)
        if not (self.is_theirs(old) and self.is_theirs(new)):
            return
        if stat.S_ISDIR(found.st_mode):
            self.kept.before_moving_folder(old, new)
            return
        if os.path.lexists(new) and not os.path.isdir(new):
            self.kept.before_losing(new)
        self.kept.before_renaming(old, new)

    def acting(self, act: Callable[[str], None], exists: bool) -> Callable[..., None]:
        """Calls ``act`` with the whole path of what may be the user's, and ``exists`` or does not yet."""

        def call(path: Any, folder: int = -1) -> None:
            whole = _whole(path, folder)
            if self.is_theirs(whole) and os.path.lexists(whole) is exists:
                act(whole)

        return call

    def is_theirs(self, path: str) -> bool:
        """Whether it may be a file of the user's: not of the system, nor bdoc's."""
        return not path.startswith(self.not_theirs) and not any(one in path for one in NOT_KEPT)


def _whole(path: Any, folder: int = -1) -> str:
    """The path from the root, a link at its end not followed."""
    text = os.fsdecode(path)
    if folder is not None and folder >= 0 and not text.startswith("/"):
        text = "/proc/self/fd/%d/%s" % (folder, text)
    head, name = os.path.split(text.rstrip("/"))
    return os.path.join(os.path.realpath(head or os.curdir), name)


LIST, WHERE = "kept.jsonl", "where"  # in the trial's folder, and a copy with the files themselves
HIDDEN = ".bdoc-kept-"
NOT_KEPT = ("/" + HIDDEN, "/__pycache__/")  # put aside already; made again by Python
COPIED_AT_MOST = 64 << 20  # bytes of a file that is changed in place
MADE_AT_MOST = 100_000  # names of new files that are remembered; a later one is kept for nothing
TOO_LARGE = "it is changed in place, and has more than %d MiB" % (COPIED_AT_MOST >> 20)
NO_PLACE = "nothing could be put aside on its file system"


class BackupList:
    """The list of one trial, which all of its processes share, and what this process knows of it."""

    def __init__(self, folder: str, here: str) -> None:
        self.list = os.path.join(folder, LIST)
        self.name = HIDDEN + os.path.basename(folder).split("-", 2)[2]  # whose it is
        self.folder, self.here = folder, os.path.realpath(here)
        self.read_bytes = self.count = 0
        self.settled: set[str] = set()  # paths that need nothing more: kept, or made by the trial
        self.folders: set[str] = set()  # of the user's, removed or renamed; their names may be used again
        self.held: set[tuple[int, int]] = set()  # what still has a name in the hidden folder
        self.places: dict[int, str | None] = {}  # by file system

    def made(self, path: str) -> None:
        """The trial makes this: it is none of the user's."""
        with self._locked():
            new = path not in self.folders and not self._is_settled(path)
            if new and len(self.settled) < MADE_AT_MOST:
                self._write(what="made", path=path)

    def before_writing(self, path: str, found: os.stat_result, anew: bool) -> None:
        """A file will be written to, or emptied first (``anew``)."""
        with self._locked():
            if (found.st_dev, found.st_ino) in self.held:
                self._part(path, found, anew)
            elif self._is_settled(path):
                return
            elif not (anew and found.st_size and self._move(path, found)):  # an empty one may be a lock
                self._copy(path, found)

    def before_losing(self, path: str) -> None:
        """A name, of a file or of a link, will be gone, or be another's."""
        with self._locked():
            found = os.lstat(path)
            if self._is_settled(path) or self._link(path, found):
                return
            if not (stat.S_ISREG(found.st_mode) and self._move(path, found)):
                self._copy(path, found)

    def before_renaming(self, old: str, new: str) -> None:
        """What ``old`` names will be ``new``, where nothing of the user's is any more."""
        with self._locked():
            found = os.lstat(old)
            is_ours = self._is_settled(old)
            if not is_ours and not self._link(old, found):
                self._copy(old, found)
            if (found.st_dev, found.st_ino) in self.held:  # one of the user's files gets a second name
                self._write(what="alias", path=new, file=[found.st_dev, found.st_ino])
            if not self._is_settled(new):
                self._write(what="made", path=new)

    def before_losing_folder(self, path: str) -> None:
        """An empty folder will be gone."""
        with self._locked():
            if not self._is_settled(path):
                self._write(what="folder", path=path, mode=stat.S_IMODE(os.lstat(path).st_mode))

    def before_moving_folder(self, old: str, new: str) -> None:
        """A folder will have another name."""
        with self._locked():
            if not self._is_settled(old):
                self._write(what="renamed", path=old, to=new)
            elif not self._is_settled(new) and not os.path.lexists(new):
                self._write(what="made", path=new)

    def _link(self, path: str, found: os.stat_result) -> bool:
        """A second name in the hidden folder; False where there can be none."""
        return self._kept("linked", path, found, lambda kept: os.link(path, kept, follow_symlinks=False))

    def _move(self, path: str, found: os.stat_result) -> bool:
        """The file itself, with its times; an empty one takes its place, and its mode."""
        moved = self._kept("moved", path, found, lambda kept: os.rename(path, kept))
        if moved:
            _empty(path, found)
        return moved

    def _kept(self, what: str, path: str, found: os.stat_result, act: Callable[[str], None]) -> bool:
        """Write it down, then ``act(its name in the hidden folder)``; where that fails it is void."""
        kept = self._next(path, found)
        if kept is None:
            return False
        file = [found.st_dev, found.st_ino]
        self._write(what=what, path=path, kept=kept, file=file)
        try:
            act(kept)
        except (OSError, NotImplementedError):
            self._write(what="void", path=path, file=file)
            return False
        return True

    def _copy(self, path: str, found: os.stat_result) -> None:
        """Its bytes, where it stays itself and only they will change."""
        if not stat.S_ISREG(found.st_mode) or found.st_size > COPIED_AT_MOST:
            why = TOO_LARGE if stat.S_ISREG(found.st_mode) else NO_PLACE
            self._write(what="left", path=path, why=why)
            return
        kept = self._next(path, found) or os.path.join(self.folder, self._token())
        part = kept + ".part"  # half a copy must never be put back
        self._write(what="copied", path=path, kept=kept, file=[found.st_dev, found.st_ino])
        try:
            shutil.copyfile(path, part)
            shutil.copystat(path, part)
            os.rename(part, kept)
        except OSError as problem:
            self._write(what="left", path=path, why="it could not be copied: %s" % problem.strerror)

    def _part(self, path: str, found: os.stat_result, anew: bool) -> None:
        """This name, under which a kept file goes on, gets a file of its own."""
        if anew:
            os.unlink(path)
            _empty(path, found)
            return
        kept = self._next(path, found)
        if kept is not None:
            self._write(what="draft", path=path, kept=kept)
            shutil.copyfile(path, kept)
            shutil.copystat(path, kept)
            os.replace(kept, path)

    def _next(self, path: str, found: os.stat_result) -> str | None:
        """A new name in the hidden folder of that file system; None where there is none."""
        if found.st_dev not in self.places:
            self.places[found.st_dev] = self._place(path, found.st_dev)
        place = self.places[found.st_dev]
        return os.path.join(place, self._token()) if place is not None else None

    def _token(self) -> str:
        self.count += 1
        return "%d-%d" % (os.getpid(), self.count)

    def _place(self, path: str, device: int) -> str | None:
        above = [os.path.dirname(path)]
        while above[-1] != "/":
            above.append(os.path.dirname(above[-1]))
        for folder in (self.here, *reversed(above)):
            place = os.path.join(folder, self.name)
            try:
                if os.stat(folder).st_dev == device and self._furnish(place):
                    return place
            except OSError:
                continue
        return None

    def _furnish(self, place: str) -> bool:
        """The folder of temporary files may be gone when a killed bdoc's files are to be put back. False
        where another user has made one of this name."""
        os.makedirs(place, 0o700, exist_ok=True)
        where, copy = os.path.join(self.folder, WHERE), os.path.join(place, WHERE)
        if is_ours(place) and os.path.exists(where) and not os.path.exists(copy):
            shutil.copyfile(where, copy)
        return is_ours(place)

    def _is_settled(self, path: str) -> bool:
        """Whether it, or a folder that holds it, is dealt with."""
        while path not in self.settled:
            above = os.path.dirname(path)
            if above == path:
                return False
            path = above
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process, and one thread, at a time; each knows by then what the others did."""
        handle = os.open(self.list, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            self.handle = handle
            self._catch_up()
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked by now has the same handle
            os.close(handle)

    def _catch_up(self) -> None:
        size = os.fstat(self.handle).st_size
        for line in os.pread(self.handle, size - self.read_bytes, self.read_bytes).splitlines():
            self._learn(json.loads(line))
        self.read_bytes = size

    def _learn(self, line: dict[str, Any]) -> None:
        if line["what"] in ("linked", "moved"):
            self.held.add((line["file"][0], line["file"][1]))
        if line["what"] in ("folder", "renamed"):
            self.folders.add(line["path"])
        elif line["what"] == "void":
            self.settled.discard(line["path"])
            self.held.discard((line["file"][0], line["file"][1]))
        elif line["what"] not in ("alias", "draft"):
            self.settled.add(line["path"])

    def _write(self, **line: Any) -> None:
        data = json.dumps(line).encode() + b"\n"
        os.write(self.handle, data)
        self.read_bytes += len(data)
        self._learn(line)
        for place in self.places.values() if line["what"] != "made" else ():
            if place is not None:
                _append(os.path.join(place, LIST), data)


def _append(file: str, data: bytes) -> None:
    try:
        with open(file, "ab", 0) as copy:
            copy.write(data)
    except OSError:  # the list itself has it
        pass


def _empty(path: str, found: os.stat_result) -> None:
    """An empty file with the mode of the one that was there, unless another process has made one."""
    mode = stat.S_IMODE(found.st_mode)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        return
    try:
        os.fchmod(handle, mode)
    finally:
        os.close(handle)
