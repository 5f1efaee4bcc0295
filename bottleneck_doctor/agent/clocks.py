"""Reads the kernel's accounting of the calling thread: CPU time, run-queue delay, bytes read, page faults."""

from __future__ import annotations

import os
import resource
import time
from _thread import _local, get_native_id  # what `threading` calls by other names

from .guard import at_fork, undo
from .wire import NOTHING

now = time.monotonic_ns
thread_cpu = time.thread_time_ns

_files = _local()
_generation = [0]


def after_fork() -> None:
    """Descriptors opened by the parent describe the parent's threads: forget them."""
    _generation[0] += 1


at_fork(after_fork)


def _close() -> None:
    """All descriptors, as far as these numbers still are those of our files."""
    for handle, path in _opened:
        try:
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.close(handle)
        except OSError:  # closed, or of a thread that has ended
            pass


_opened: list[tuple[int, str]] = []
undo.append(_close)


def _file(name: str) -> int:
    """The calling thread's own descriptor of a file in its /proc folder, or -1."""
    known: tuple[int, dict[str, int]] | None = getattr(_files, "known", None)
    if known is None or known[0] != _generation[0]:
        known = _files.known = (_generation[0], {})
    handle: int | None = known[1].get(name)
    if handle is None:
        try:
            path = "/proc/self/task/%d/%s" % (get_native_id(), name)
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            _opened.append((handle, path))
        except OSError:
            handle = -1
        known[1][name] = handle
    return handle


def _read(name: str) -> bytes | None:
    handle = _file(name)
    if handle < 0:
        return None
    try:
        return os.pread(handle, 512, 0)
    except OSError:  # a script may have closed every descriptor it did not know
        _files.known[1][name] = -1
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
