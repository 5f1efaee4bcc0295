"""Times reads of the training's own files, cold and from memory, several side by side; a script of its own.

Run by ``calibrate.ask`` in an interpreter of its own: standard library only, nothing of ours imported. It
reads, it writes into ``folder`` only, and it asks the kernel to forget what it is about to read cold.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import stat
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

PAGE = 4096
SLICE_S = 0.12  # of reading at each depth; a throttle of the kernel's counts in tenths of a second
ROUNDS = 2  # the quicker one counts: somebody else may have used the disk meanwhile
LARGEST_READ = 8 << 20
PACKED_BYTES = 16 << 20
MEMORY_BYTES = 64 << 20  # read again and again when reads from memory are timed: no core's cache holds that
MEMORY_PLACES = 1024
FILLING_S = 0.3  # for reading them the first time

Read = Callable[[], None]
Job = Callable[[int, int], "Iterator[tuple[Read, Read]]"]  # of reader number n out of so many


def main(request: dict[str, Any], tell: Callable[..., None]) -> None:
    """``request``: paths, size (of a read), direct, whole (files are read whole), depths, now (the training's
    depth), folder (for the packed copy). Tells one row for each way of reading."""
    files = [(path, size) for path in request["paths"] if (size := _size(path))]
    if not files:
        return
    read = _whole(files) if request["whole"] else _places(files, request["size"], request["direct"])
    subject = "file" if request["whole"] else "read"
    best: dict[int, dict[str, float]] = {}
    for _ in range(ROUNDS):
        for depth in request["depths"]:
            found = side_by_side(read, depth, SLICE_S)
            if found and found["seconds"] < best.get(depth, found)["seconds"] + 1e-12:
                best[depth] = found
    for depth, row in best.items():
        tell(subject=subject, variant="cold", depth=depth, **row)
    now = request["now"]
    _tell(tell, subject, "memory", now, side_by_side(_warm(files, request), now, SLICE_S))
    if request["whole"] and os.stat(request["folder"]).st_dev == os.stat(files[0][0]).st_dev:
        _tell(tell, subject, "packed", now, _packed(files, request["chunk"], request["folder"], now))


def _tell(
    tell: Callable[..., None], subject: str, variant: str, depth: int, row: dict[str, float] | None
) -> None:
    if row:
        tell(subject=subject, variant=variant, depth=depth, **row)


def _size(path: str) -> int:
    """The size of a plain file that we may read; 0 for anything else."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) and os.access(path, os.R_OK) else 0


def _open(path: str, direct: bool = False) -> int:
    past_cache = getattr(os, "O_DIRECT", 0) if direct else 0
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | past_cache)


def _places(files: list[tuple[str, int]], size: int, direct: bool) -> Job:
    """Reads of ``size`` bytes at random places of random files, which stay open."""

    def reads(seed: int, depth: int) -> Iterator[tuple[Read, Read]]:
        chance = random.Random(seed)
        kept = {path: _open(path, direct) for path, _ in files[:16]}
        largest = max(bytes_ for path, bytes_ in files if path in kept)
        length = _aligned(min(size, LARGEST_READ, largest))
        page = mmap.mmap(-1, length)
        while True:
            path, bytes_ = files[chance.randrange(len(kept))]
            at = chance.randrange(max(1, (bytes_ - length) // PAGE + 1)) * PAGE
            number = kept[path]
            yield _dropping(number, at, length, direct), _reading(number, page, at)

    return reads


def _reading(number: int, page: mmap.mmap, at: int) -> Read:
    return lambda: _ignore(os.preadv(number, [page], at))


def _dropping(number: int, at: int, length: int, direct: bool) -> Read:
    if direct:
        return lambda: None
    return lambda: os.posix_fadvise(number, at, length, os.POSIX_FADV_DONTNEED)


def _ignore(_: object) -> None:
    return None


def _aligned(size: int) -> int:
    return max(PAGE, size // PAGE * PAGE)


def _whole(files: list[tuple[str, int]]) -> Job:
    """Files opened, read and closed, one after the other. Each reader has files of its own: one that followed
    another would find in memory what that one has just read."""

    def reads(seed: int, depth: int) -> Iterator[tuple[Read, Read]]:
        mine = files[seed::depth] or files
        for path, size in cycle(mine):
            yield _forgetting(path), _taking(path, size)

    return reads


def _forgetting(path: str) -> Read:
    def forget() -> None:
        number = _open(path)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)

    return forget


def _taking(path: str, size: int) -> Read:
    def take() -> None:
        number = _open(path)
        os.pread(number, size, 0)
        os.close(number)

    return take


def _warm(files: list[tuple[str, int]], request: dict[str, Any]) -> Job:
    """The same reads, answered from memory: a few places, each read before it is timed."""

    def reads(seed: int, depth: int) -> Iterator[tuple[Read, Read]]:
        if request["whole"]:
            takes = [_taking(path, size) for path, size in files]
        else:
            path, bytes_ = files[0]
            number, length = _open(path), _aligned(min(request["size"], LARGEST_READ, bytes_))
            page = mmap.mmap(-1, length)
            ends = max(1, bytes_ // length)
            takes = [
                _reading(number, page, place % ends * length)
                for place in range(_places_in_memory(length, request["now"]))
            ]
        filled, until = 0, time.monotonic() + FILLING_S
        for take in takes:
            take()
            filled += 1
            if time.monotonic() > until:
                break
        takes = takes[:filled]
        while True:
            for take in takes:
                yield (lambda: None), take

    return reads


def _places_in_memory(length: int, readers: int) -> int:
    return max(2, min(MEMORY_PLACES, MEMORY_BYTES // readers // length))


def _packed(files: list[tuple[str, int]], chunk: int, folder: str, depth: int) -> dict[str, float] | None:
    """The same files' bytes in one file, read in pieces of a batch; the row is for one sample's share."""
    path = os.path.join(folder, "packed")
    with open(path, "wb") as packed:
        while packed.tell() < PACKED_BYTES:
            for name, size in files:
                packed.write(_content(name, min(size, LARGEST_READ)))
        packed.flush()
        os.fsync(packed.fileno())
    try:
        mean = sum(size for _, size in files) / len(files)
        row = side_by_side(_places([(path, os.path.getsize(path))], chunk, False), depth, SLICE_S)
    finally:
        os.unlink(path)
    if row is None:
        return None
    share = min(1.0, mean / row["size_bytes"])
    return {**row, "seconds": row["seconds"] * share, "cpu_s": row["cpu_s"] * share, "size_bytes": mean}


def _content(path: str, size: int) -> bytes:
    number = _open(path)
    try:
        return os.pread(number, size, 0)
    finally:
        os.close(number)


def side_by_side(job: Job, depth: int, seconds: float) -> dict[str, float] | None:
    """``depth`` processes read for so long; means over all reads, waiting for a core left out."""
    source, sink = os.pipe()
    begin = time.monotonic() + 0.002 * depth
    children = []
    for seed in range(depth):
        child = os.fork()
        if not child:
            _child(partial(job, seed, depth), begin, seconds, sink)
        children.append(child)
    os.close(sink)
    with os.fdopen(source) as lines:
        told = [json.loads(line) for line in lines]
    for child in children:
        os.waitpid(child, 0)
    count = sum(one["count"] for one in told)
    if not count:
        return None
    mean = {name: sum(one[name] for one in told) / count for name in ("wall", "cpu", "queue", "bytes")}
    return {
        "seconds": max(mean["cpu"], mean["wall"] - mean["queue"]), "cpu_s": mean["cpu"],
        "size_bytes": mean["bytes"], "repeats": count,
    }  # fmt: skip


def _child(reads: Callable[[], Iterator[tuple[Read, Read]]], begin: float, seconds: float, sink: int) -> None:
    """A reader's whole life: never returns."""
    try:
        time.sleep(max(0.0, begin - time.monotonic()))
        os.write(sink, (json.dumps(_timed(reads(), seconds)) + "\n").encode())
    except BaseException:  # a file that is gone: this reader has nothing to tell
        pass
    finally:
        os._exit(0)


def _timed(reads: Iterator[tuple[Read, Read]], seconds: float) -> dict[str, float]:
    prepare, read = next(reads)  # what has to be opened or filled first is no part of the times
    count, wall, cpu, delivered = 0, 0.0, 0.0, _delivered()
    start, queued = time.monotonic(), _queued_s()
    while time.monotonic() - start < seconds:
        prepare()
        began, worked = time.monotonic(), time.thread_time()
        read()
        cpu += time.thread_time() - worked
        wall += time.monotonic() - began
        count += 1
        prepare, read = next(reads)
    elapsed = max(1e-9, time.monotonic() - start)
    queue = (_queued_s() - queued) * wall / elapsed
    return {"count": count, "wall": wall, "cpu": cpu, "queue": queue, "bytes": _delivered() - delivered}


def _queued_s() -> float:
    """Seconds that this process was runnable and had no core."""
    try:
        with open("/proc/self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _delivered() -> float:
    """Bytes that read calls have brought, by the kernel's count."""
    try:
        with open("/proc/self/io") as file:
            return float(file.readline().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0
