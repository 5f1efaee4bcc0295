"""Writes rows into one reserved, memory-mapped file per process; never waits, never raises."""

from __future__ import annotations

import itertools
import mmap
import os
import time

try:
    from _json import encode_basestring_ascii as _quoted
except ImportError:  # another Python than CPython
    from json.encoder import encode_basestring_ascii as _quoted

from . import wire
from .guard import keep
from .hints import Any, Callable

FACTS_AT_MOST = 4096  # lines of text per process: constructions in a loop must not fill the disk
FACT_BYTES = 16384  # a longer line is cut, and then left out by the reader


class EventWriter:
    """The file of one process. ``row`` may be called from any thread."""

    def __init__(self, folder: str) -> None:
        self.pid = os.getpid()
        self.start_ns = time.monotonic_ns()
        self.path = os.path.join(folder, "%d-%d" % (self.pid, self.start_ns))
        self.map: Any = None
        self.limit = 0  # slots that are reserved
        self.reserved = 0  # bytes that they take
        self.facts_left = FACTS_AT_MOST
        self.slots = itertools.count()
        self.dropped = 0
        self.on_full: Callable[[], object] = int  # called when a chunk is full
        self._open()

    def _open(self) -> None:
        try:
            handle = wire.open_ours(self.path + ".rows", os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError:
            return
        try:
            # Reserved before mapped: a full disk must fail here and not as SIGBUS in the user's loop.
            os.posix_fallocate(handle, 0, wire.HEADER_BYTES)
            os.ftruncate(handle, wire.HEADER_BYTES + wire.MAX_CHUNKS * wire.CHUNK_BYTES)
            identity = (wire.MAGIC, wire.VERSION, wire.ROW.size, self.pid, os.getppid(), self.start_ns)
            self.map = keep(mmap.mmap(handle, wire.HEADER_BYTES + wire.MAX_CHUNKS * wire.CHUNK_BYTES))
            self.map.madvise(mmap.MADV_RANDOM)  # else its first touch reads holes ahead: 3 ms and more
            wire.IDENTITY.pack_into(self.map, 0, *identity)
        except (OSError, ValueError):
            self.map = None
        finally:
            os.close(handle)

    def row(
        self, kind: int, start_ns: int, duration_ns: int,
        a: int = 0, b: int = 0, c: int = 0, d: int = 0, e: int = 0, thing: int = 0, thread: int = 0,
    ) -> None:  # fmt: skip
        """Append one row; about half a microsecond."""
        slot = next(self.slots)  # one bytecode under the GIL: two threads never get the same slot
        if slot >= self.limit and not self._grow(slot):
            return
        offset = wire.HEADER_BYTES + slot * 64
        wire.ROW.pack_into(self.map, offset, start_ns, duration_ns, a, b, c, d, e, thing, thread, kind)

    def _grow(self, slot: int) -> bool:
        """Reserve more; False when the row must be dropped."""
        try:
            while slot >= self.limit:
                more = min(max(self.reserved, wire.FIRST_BYTES), wire.CHUNK_BYTES)
                if self.map is None or self.reserved + more > wire.MAX_CHUNKS * wire.CHUNK_BYTES:
                    raise OSError
                handle = wire.open_ours(self.path + ".rows", os.O_RDWR)
                try:
                    os.posix_fallocate(handle, wire.HEADER_BYTES + self.reserved, more)
                finally:
                    os.close(handle)
                self.reserved += more
                self.limit = self.reserved // wire.ROW.size
            if self.reserved > wire.CHUNK_BYTES:
                self.on_full()
            return True
        except OSError:
            self.dropped += 1
            self.post(wire.DROPPED, self.dropped)
            return False

    def post(self, offset: int, value: int) -> None:
        """Set one word of the board."""
        if self.map is not None:
            wire.WORD.pack_into(self.map, offset, value)

    def fact(self, **values: Any) -> None:
        """Append one line of text, opened and closed each time: descriptors are the user's."""
        if self.facts_left <= 0:
            return
        self.facts_left -= 1
        try:
            line = _json(values).encode("utf-8", "replace")[:FACT_BYTES] + b"\n"
            handle = wire.open_ours(self.path + ".facts", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)
        except (OSError, ValueError, TypeError, RecursionError):
            pass


def _json(value: Any) -> str:
    """As ``json.dumps(value, default=str)``: `json` takes milliseconds of each start of an interpreter."""
    if isinstance(value, str):
        return _quoted(value)
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _FLOATS.get(float.__repr__(value)) or float.__repr__(value)
    if isinstance(value, dict):
        return "{%s}" % ", ".join(
            _quoted(name if isinstance(name, str) else _json(name)) + ": " + _json(one)
            for name, one in value.items()
        )
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(map(_json, value))
    return _quoted(str(value))


_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
