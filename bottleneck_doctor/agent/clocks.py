"""Reads the kernel's accounting of the calling thread: CPU time, run-queue delay, bytes read, page faults."""

from __future__ import annotations

import os
import resource
import time
from _thread import _local, get_native_id  # what `threading` calls by other names

from .guard import at_fork, undo
from .hints import Any
from .wire import NOTHING

now = time.monotonic_ns
thread_cpu = time.thread_time_ns

_opened: set[tuple[int, int, int]] = set()  # (descriptor, device, inode of the file it was opened for)


def _close(files: list[tuple[int, int, int]]) -> None:
    """Close these descriptors, as far as their numbers still are those of our files."""
    for file in files:
        try:
            _opened.discard(file)
            found = os.fstat(file[0])
            if (found.st_dev, found.st_ino) == file[1:]:
                os.close(file[0])
        except Exception:  # closed by the script; or the interpreter ends, and `os` is gone
            pass


undo.append(lambda: _close([*_opened]))


class _ThreadFiles:
    """The files in one thread's /proc folder that are open, by name; closed when the thread ends."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, int, int] | None] = {}

    def __del__(self, close: Any = _close) -> None:
        close([one for one in self.known.values() if one is not None])


_files = _local()


def _forget() -> None:
    """In a forked child: descriptors opened by the parent describe the parent's threads."""
    _files.__dict__.clear()


at_fork(_forget)


def _read(name: str) -> bytes | None:
    files: _ThreadFiles | None = getattr(_files, "own", None)
    if files is None:
        files = _files.own = _ThreadFiles()
    try:
        if name not in files.known:
            files.known[name] = None
            path = "/proc/self/task/%d/%s" % (get_native_id(), name)
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            found = os.fstat(handle)
            files.known[name] = handle, found.st_dev, found.st_ino
            _opened.add((handle, found.st_dev, found.st_ino))
        file = files.known[name]
        return None if file is None else os.pread(file[0], 512, 0)
    except OSError:  # there is none; or a script has closed every descriptor it did not know
        files.known[name] = None
        return None


def run_queue() -> int:
    """Nanoseconds that this thread was runnable but not running (schedstat, second field)."""
    text = _read("schedstat")
    try:
        return int(text.split()[1]) if text else NOTHING
    except (ValueError, IndexError):
        return NOTHING


def io_books(counting_itself: bool = False) -> tuple[int, int, int]:
    """(bytes from storage, bytes read, read calls) of this thread, or NOTHING each.

    ``counting_itself`` adds this very read, which the kernel books after answering it.
    """
    text = _read("io")
    try:
        if not text:
            return (NOTHING,) * 3
        words = text.split()
        own, call = (len(text), 1) if counting_itself else (0, 0)
        return int(words[9]), int(words[1]) + own, int(words[5]) + call
    except (ValueError, IndexError):
        return (NOTHING,) * 3


def usage() -> tuple[int, int]:
    """(system CPU in nanoseconds, minor faults) of the whole process: what new pages cost, in any thread."""
    known = resource.getrusage(resource.RUSAGE_SELF)
    return int(known.ru_stime * 1e9), known.ru_minflt


def faults() -> tuple[int, int, int]:
    """(major faults, system CPU in nanoseconds, minor faults) of this thread."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_majflt, int(usage.ru_stime * 1e9), usage.ru_minflt
