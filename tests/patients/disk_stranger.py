"""A stranger who reads a file past the page cache, several megabytes at once, until he is killed."""

from __future__ import annotations

import mmap
import os
import sys
import threading

CHUNK, READERS = 1 << 20, 8


def read_on(path: str, start: int) -> None:
    """Read the file round and round."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    size, buffer = os.fstat(descriptor).st_size, mmap.mmap(-1, CHUNK)
    while True:
        start = (start + CHUNK) % (size - CHUNK)
        os.preadv(descriptor, [buffer], start // CHUNK * CHUNK)


if __name__ == "__main__":
    for number in range(READERS):
        threading.Thread(target=read_on, args=(sys.argv[1], number * CHUNK), daemon=True).start()
    threading.Event().wait()
