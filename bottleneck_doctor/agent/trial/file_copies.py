"""Files in memory: whoever opens one for reading gets the copy, and all processes share it.

A copy is an anonymous file (memfd) of the process that made it; the others open it through /proc. It ends
with the last process that has it.
"""

from __future__ import annotations

import builtins
import io
import os
import stat
import threading

from ..hints import Any, Callable
from .sample_store import Store, file_key, key_of

FILES_AT_MOST = 1 << 16
TABLE_BYTES = 1 << 24  # for the places of the copies
SPARE_DESCRIPTORS = 0.5  # of this process's limit: the training needs some itself
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
IN_MEMORY = ("/proc/", "/sys/", "/dev/")


class Copies:
    """The copies of all processes, in a table that forked ones share. ``limit_bytes`` are for each."""

    def __init__(self, limit_bytes: int, done: Callable[..., None]) -> None:
        self.table = Store(FILES_AT_MOST, TABLE_BYTES)
        self.left = limit_bytes
        self.done = done
        self.files = 0
        self.mine: dict[int, str] = {}
        self.making = threading.local()

    def place(self, path: Any) -> str | None:
        """Where the copy of a file is, made now if it is not there; None for what is left where it is."""
        if not getattr(self.making, "on", False) or not isinstance(path, (str, bytes, os.PathLike)):
            return None
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith(IN_MEMORY):
            return None
        self.making.on = False  # what follows opens files itself
        try:
            return self._place(name)
        except OSError:
            return None
        finally:
            self.making.on = True

    def _place(self, name: str) -> str | None:
        seen = os.stat(name)
        if not stat.S_ISREG(seen.st_mode) or not seen.st_size:
            return None
        key = key_of(file_key(name, seen))
        there = self.mine.get(key)
        if there is None:
            others = self.table.get(key)
            is_there = others is not None and os.path.exists(others[0])
            there = others[0] if others is not None and is_there else self._copied(name, seen)
            if there is not None:
                self.mine[key] = there
                self.table.put(key, there)
        if there is not None:
            self.done()
        return there

    def _copied(self, name: str, seen: os.stat_result) -> str | None:
        limit = os.sysconf("SC_OPEN_MAX") * SPARE_DESCRIPTORS
        if seen.st_size > self.left or self.files >= limit:
            self.done("not all files found room in memory")
            return None
        self.left -= seen.st_size
        self.files += 1
        copy = os.memfd_create("bdoc-file", os.MFD_CLOEXEC)
        source = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while os.sendfile(copy, source, None, 1 << 24):
                pass
        except OSError:
            os.close(copy)
            raise
        finally:
            os.close(source)
        return "/proc/%d/fd/%d" % (os.getpid(), copy)

    def during(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """``make``, during which files that this thread opens are taken from memory."""

        def making(*args: Any, **kwargs: Any) -> Any:
            before, self.making.on = getattr(self.making, "on", False), True
            try:
                return make(*args, **kwargs)
            finally:
                self.making.on = before

        return making

    def serve(self) -> None:
        """From now on, in this process and its children, opening looks here first."""
        open_low, open_file = os.open, builtins.open

        def low(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            elsewhere = flags & WRITING or kwargs.get("dir_fd") is not None
            there = None if elsewhere else self.place(path)
            if there is None:
                return open_low(path, flags, *args, **kwargs)
            return open_low(there, flags & ~getattr(os, "O_DIRECT", 0))

        def file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            there = None if set(mode) & set("wax+") else self.place(file)
            return open_file(file if there is None else there, mode, *args, **kwargs)

        os.open = low
        builtins.open = io.open = file
