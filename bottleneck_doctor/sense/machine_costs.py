"""What this machine takes to map a page and to hand a descriptor over, timed once the training is gone.

A file of its own: nothing of it is loaded before the training has ended.
"""

from __future__ import annotations

import mmap
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from multiprocessing.reduction import recv_handle, send_handle
from statistics import median

FAULTED_BYTES = 8 << 20
HANDED, HANDED_WITHIN_S, HANDS_OUT = 20, 2.0, b"bdoc"


def fault_s() -> float | None:
    """CPU seconds to map, zero and give back one page, timed here: 10 ms in all, never during a training."""
    pages = FAULTED_BYTES // mmap.PAGESIZE
    try:
        return min(_fault_all(pages) for _ in range(3)) / pages
    except OSError:
        return None


def _fault_all(pages: int) -> float:
    began = time.thread_time()
    with mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)
        memory[:: mmap.PAGESIZE] = bytes(pages)
    return time.thread_time() - began


def handed_s() -> float | None:
    """CPU seconds, of both sides, to hand a descriptor over as a loader's worker does, on two cores where
    there are two. Timed here: 30 ms in all, never during a training."""
    timed = [_handed_s() for _ in range(3)]
    return median(known) if (known := [one for one in timed if one is not None]) else None


def _handed_s() -> float | None:
    spent: list[float] = []
    try:
        with Listener("\0bdoc-" + secrets.token_hex(8), authkey=HANDS_OUT) as listener:  # leaves no file
            sides = [
                threading.Thread(target=_timed, args=(side, listener, place, spent), daemon=True)
                for place, side in enumerate((_hand_out, _ask))
            ]
            for thread in sides:
                thread.start()
            for thread in reversed(sides):
                thread.join(HANDED_WITHIN_S)
    except OSError:
        return None
    return sum(spent) / HANDED if len(spent) == 2 else None


def _timed(side: Callable[[Listener], None], listener: Listener, place: int, spent: list[float]) -> None:
    """One side, in a thread on a core of its own; if it fails it closes the listener: the other side ends."""
    try:
        with suppress(AttributeError, OSError):
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[place % len(cores)]})  # of this thread alone
        began = time.thread_time()
        for _ in range(HANDED):
            side(listener)
        spent.append(time.thread_time() - began)
    except (AuthenticationError, EOFError, OSError):
        listener.close()


def _hand_out(listener: Listener) -> None:
    with listener.accept() as asked:
        send_handle(asked, 1, asked.recv())


def _ask(listener: Listener) -> None:
    with Client(listener.address, authkey=HANDS_OUT) as asking:
        asking.send(os.getpid())
        os.close(recv_handle(asking))
