"""Hears what a trial is about to overwrite, replace or delete, and has it put aside first.

Loaded only where ``bdoc prove`` asks for it (``BDOC_KEEP``). An audit hook tells of opens, renames and
deletions before they happen; what torch and safetensors write without Python is met at their functions.
Databases and whatever other programs write are not seen.
"""

from __future__ import annotations

import os
import stat
import sys
import threading

from ..hints import Any, Callable, Table
from ..state import state
from .backup_list import BackupList
from .hook_points import at_saving

WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC  # what is opened anew, by whatever means
NOT_FILES = ("/dev/", "/proc/", "/sys/", "/run/")
COMPILED = "/__pycache__/"  # Python's own, made again from the source


def watch(folder: str) -> Table:
    """Keep files from now on; ``folder`` holds the trial's list of them. Also a table of modules, as
    agent/importing.py takes them."""
    keeper = _Keeper(folder)
    sys.addaudithook(keeper.hook())
    return at_saving(keeper.before_saving)


class _Keeper:
    """What one process does before it writes."""

    def __init__(self, folder: str) -> None:
        self.kept = BackupList(folder, os.getcwd())
        self.not_theirs = (*NOT_FILES, *(os.path.realpath(one) + "/" for one in (folder, state.folder)))
        self.at_work = threading.local()  # our own opens are heard, too
        self.acts: dict[str, Callable[..., None]] = {
            "open": self.opens,
            "os.rename": self.renames,
            "os.remove": self.removes,
            "os.truncate": lambda path, length: self.changes(path),
            "os.mkdir": lambda path, mode, folder: self.makes(path, folder),
            "os.symlink": lambda source, path, folder: self.makes(path, folder),
            "os.rmdir": self.removes_folder,
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
        """Nothing of ours reaches the script, and nothing that we open ourselves is heard."""
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

    def changes(self, path: Any) -> None:
        """A file is about to be cut in place; one that is open was met when it was opened."""
        self.opens(path, None, os.O_WRONLY)

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

    def removes(self, path: Any, folder: int = -1) -> None:
        """``os.remove`` and ``os.unlink``; ``shutil.rmtree`` comes down to them."""
        whole = _whole(path, folder)
        if self.is_theirs(whole) and os.path.lexists(whole):
            self.kept.before_losing(whole)

    def removes_folder(self, path: Any, folder: int = -1) -> None:
        """``os.rmdir``: the folder itself, with its mode."""
        whole = _whole(path, folder)
        if self.is_theirs(whole):
            self.kept.before_losing_folder(whole)

    def makes(self, path: Any, folder: int = -1) -> None:
        """Something that is not there yet."""
        whole = _whole(path, folder)
        if self.is_theirs(whole) and not os.path.lexists(whole):
            self.kept.made(whole)

    def is_theirs(self, path: str) -> bool:
        """Whether it may be a file of the user's: not of the system, nor ours."""
        return not path.startswith(self.not_theirs) and COMPILED not in path and not self.kept.holds(path)


def _whole(path: Any, folder: int = -1) -> str:
    """The path from the root, a link at its end not followed."""
    text = os.fsdecode(path)
    if folder is not None and folder >= 0 and not text.startswith("/"):
        text = "/proc/self/fd/%d/%s" % (folder, text)
    head, name = os.path.split(text.rstrip("/"))
    return os.path.join(os.path.realpath(head or os.curdir), name)
