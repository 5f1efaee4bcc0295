"""Samples in memory that all processes of a training share: nobody has to clean up after it.

The memory is an anonymous file (memfd), inherited by forked workers and opened through /proc by spawned ones;
it ends with the last process that has it. Whoever adds something takes a lock, whoever reads does not: an
entry's place in the table is written last. Arrays are not pickled: a sample kept in memory must cost a copy.
What is handed out is a copy each time, so that a script may change it in place.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import sys
from hashlib import blake2b
from struct import Struct
from threading import Lock

from ..hints import Any

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
        self.limit = limit_bytes
        self.file = os.memfd_create("bdoc-samples", os.MFD_CLOEXEC)
        self._map()

    def _map(self) -> None:
        """Samples begin after the table, on a page of their own."""
        self.bits = (2 * self.keys).bit_length()  # a table of two to four times as many entries
        table_bytes = WORD * (TABLE + ENTRY * (1 << self.bits))
        self.begin = -(-table_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        os.ftruncate(self.file, self.begin + self.limit)
        self.lock = Lock()
        self.table = memoryview(mmap.mmap(self.file, self.begin)).cast("Q")
        self.data = memoryview(mmap.mmap(self.file, self.begin + self.limit, prot=mmap.PROT_READ))

    def __getstate__(self) -> tuple[int, int, str]:
        return self.keys, self.limit, "/proc/%d/fd/%d" % (os.getpid(), self.file)

    def __setstate__(self, state: tuple[int, int, str]) -> None:
        self.keys, self.limit, path = state
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
        return (_unpack(bytes(self.data[begin:middle]), bytearray(self.data[middle : middle + size])),)

    def put(self, key: int, sample: Any) -> bool:
        """Keep a copy; False where there is no room. Raises what pickle raises, and ``OSError``."""
        parts: list[Any] = []
        shape = pickle.dumps(_shape(sample, parts, [0]), protocol=5)
        record = b"".join([HEAD.pack(len(shape), sum(map(len, parts))), shape, *parts])
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
        begin = self.begin + filled
        os.pwrite(self.file, record, begin)  # a write fails where a store to mapped memory kills
        self.table[FILLED], self.table[COUNT] = filled + len(record), count + 1
        self.table[slot] = key + 1
        self.table[slot + 1] = begin
        return True


def key_of(*parts: Any) -> int:
    """A number for what these bytes, and buffers of them, name."""
    digest = blake2b(digest_size=7)
    for part in parts:
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


def file_key(path: str, seen: os.stat_result) -> bytes:
    """What tells this state of a file from any other."""
    return b"%d %d " % (seen.st_size, seen.st_mtime_ns) + os.fsencode(os.path.abspath(path))


def room(share: float = 0.5) -> int:
    """Bytes that may be kept: a share of the memory that is available now."""
    with open("/proc/meminfo", encoding="ascii") as info:
        known = dict(line.split(":") for line in info)
    return int(int(known["MemAvailable"].split()[0]) * 1024 * share)


ALIGNED = 64
PLAIN = (type(None), bool, int, float, str, bytes)
NUMBERS = "biufc"  # kinds of NumPy's types that are nothing but bytes
SHAPES_AT_MOST = 1024  # that are remembered unpickled


def _shape(thing: Any, buffers: list[Any], size: list[int]) -> tuple[Any, ...]:
    """The sample without the bytes of its arrays, which are appended to ``buffers``."""
    kind = type(thing)
    if kind in PLAIN:
        return "plain", thing
    if kind in (tuple, list):
        return kind.__name__, [_shape(part, buffers, size) for part in thing]
    if kind is dict:
        return "dict", [(key, _shape(part, buffers, size)) for key, part in thing.items()]
    return _array(thing, buffers, size) or ("pickled", pickle.dumps(thing, protocol=5))


def _array(thing: Any, buffers: list[Any], size: list[int]) -> tuple[Any, ...] | None:
    """Where an array's bytes lie, and as what; None for anything else."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(thing) is torch.Tensor:
        if thing.device.type != "cpu" or thing.layout is not torch.strided or thing.requires_grad:
            return None
        flat = thing.resolve_conj().resolve_neg().contiguous().view(-1)
        raw = flat.view(torch.uint8).numpy().data if flat.numel() else b""
        name, shape = str(thing.dtype).partition(".")[2], tuple(thing.shape)
        return ("tensor", name, shape, thing.numel(), _placed(raw, buffers, size))
    if numpy is not None and type(thing) is numpy.ndarray and thing.dtype.kind in NUMBERS:
        raw = numpy.ascontiguousarray(thing).reshape(-1).view(numpy.uint8).data if thing.size else b""
        return ("array", thing.dtype.str, thing.shape, thing.size, _placed(raw, buffers, size))
    return None


def _placed(raw: Any, buffers: list[Any], size: list[int]) -> int:
    """Append the bytes, aligned; where they begin."""
    gap = -size[0] % ALIGNED
    if gap:
        buffers.append(bytes(gap))
    begin = size[0] + gap
    buffers.append(raw)
    size[0] = begin + len(raw)
    return begin


_shapes: dict[bytes, Any] = {}


def _unpack(shape: bytes, data: bytearray) -> Any:
    """The sample again; its arrays lie in ``data``, which is theirs from now on."""
    known = _shapes.get(shape)
    if known is None:
        known = pickle.loads(shape)  # written by ourselves, in this run
        if len(_shapes) < SHAPES_AT_MOST:
            _shapes[shape] = known
    return _built(known, data)


def _built(shape: Any, data: bytearray) -> Any:
    kind = shape[0]
    if kind == "plain":
        return shape[1]
    if kind == "tensor":
        torch: Any = sys.modules["torch"]
        _, name, size, count, begin = shape
        dtype = getattr(torch, name)
        if not count:
            return torch.empty(size, dtype=dtype)
        return torch.frombuffer(data, dtype=dtype, count=count, offset=begin).view(size)
    if kind == "array":
        numpy: Any = sys.modules["numpy"]
        return numpy.frombuffer(data, shape[1], shape[3], shape[4]).reshape(shape[2])
    if kind == "pickled":
        return pickle.loads(shape[1])
    if kind == "dict":
        return {key: _built(part, data) for key, part in shape[1]}
    parts = [_built(part, data) for part in shape[1]]
    return tuple(parts) if kind == "tuple" else parts
