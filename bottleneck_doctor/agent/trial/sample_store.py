"""Samples in memory that all processes of a training share: nobody has to clean up after it.

The memory is an anonymous file (memfd), inherited by forked workers and opened through /proc by spawned ones;
it ends with the last process that has it. Whoever adds something takes a lock, whoever reads does not: an
entry's place in the table is written last. Only trials load this.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from struct import Struct
from threading import Lock

from ..hints import Any
from .sample_codec import pack, unpack

WORD = 8
FILLED, COUNT = 0, 1  # the words before the table: bytes in use, entries in use
TABLE = 2
ENTRY = 2  # words of an entry: key + 1, where the sample begins (0 = nowhere yet)
HEAD = Struct("<II")  # of a sample: bytes of its shape, bytes of its arrays
SCRAMBLE, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1  # a key times this: neighbours lie apart (Knuth, 6.4)
KEYS_AT_MOST = 1 << 26


class Store:
    """A table of samples by number; ``keys`` of them at most, in ``limit_bytes`` at most."""

    def __init__(self, keys: int, limit_bytes: int) -> None:
        self.keys = max(1, min(keys, KEYS_AT_MOST))
        self.bits = _bits(self.keys)
        self.limit = limit_bytes
        self.file = os.memfd_create("bdoc-samples", os.MFD_CLOEXEC)
        os.ftruncate(self.file, self._begin() + limit_bytes)
        self._map()

    def _begin(self) -> int:
        """Where samples begin: after the table, on a page of their own."""
        size = WORD * (TABLE + ENTRY * (1 << self.bits))
        return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE

    def _map(self) -> None:
        self.lock = Lock()
        self.table = memoryview(mmap.mmap(self.file, self._begin())).cast("Q")
        self.data = memoryview(mmap.mmap(self.file, self._begin() + self.limit, prot=mmap.PROT_READ))

    def __getstate__(self) -> tuple[int, int, str]:
        return self.keys, self.limit, "/proc/%d/fd/%d" % (os.getpid(), self.file)

    def __setstate__(self, state: tuple[int, int, str]) -> None:
        self.keys, self.limit, path = state
        self.bits = _bits(self.keys)
        self.file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._map()

    def _slot(self, key: int) -> int:
        """The word at which the key's entry stands, or may stand."""
        place = (key * SCRAMBLE & MASK) >> (64 - self.bits)
        slot = TABLE + ENTRY * place
        while self.table[slot] not in (0, key + 1):
            place = (place + 1) & ((1 << self.bits) - 1)
            slot = TABLE + ENTRY * place
        return slot

    def has(self, key: int) -> bool:
        """Whether a sample is kept under this number."""
        return bool(self.table[self._slot(key) + 1])

    def get(self, key: int) -> tuple[Any] | None:
        """A copy of the sample kept under this number, in a tuple; None where there is none."""
        slot = self._slot(key)
        begin = self.table[slot + 1]
        if not begin:
            return None
        shape, size = HEAD.unpack_from(self.data, begin)
        begin += HEAD.size
        middle = begin + shape
        return (unpack(bytes(self.data[begin:middle]), bytearray(self.data[middle : middle + size])),)

    def put(self, key: int, sample: Any) -> bool:
        """Keep a copy; False where there is no room. Raises what pickle raises, and ``OSError``."""
        shape, parts = pack(sample)
        size = sum(map(len, parts))
        record = b"".join([HEAD.pack(len(shape), size), shape, *parts])
        with self.lock:
            fcntl.lockf(self.file, fcntl.LOCK_EX, WORD)
            try:
                return self._kept(key, record)
            finally:
                fcntl.lockf(self.file, fcntl.LOCK_UN, WORD)

    def _kept(self, key: int, record: bytes) -> bool:
        slot, filled, count = self._slot(key), self.table[FILLED], self.table[COUNT]
        if self.table[slot]:
            return True
        if count >= self.keys or filled + len(record) > self.limit:
            return False
        begin = self._begin() + filled
        os.pwrite(self.file, record, begin)  # a write fails where a store to mapped memory kills
        self.table[FILLED], self.table[COUNT] = filled + len(record), count + 1
        self.table[slot] = key + 1
        self.table[slot + 1] = begin
        return True


def _bits(keys: int) -> int:
    """A table of two to four times as many entries."""
    return (2 * keys).bit_length()


def room(share: float = 0.5) -> int:
    """Bytes that may be kept: a share of the memory that is available now."""
    with open("/proc/meminfo", encoding="ascii") as info:
        known = dict(line.split(":") for line in info)
    return int(int(known["MemAvailable"].split()[0]) * 1024 * share)
