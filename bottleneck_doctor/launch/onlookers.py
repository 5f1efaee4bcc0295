"""The supervisor's side of ``bdoc watch``: hands over what it measured, only while somebody watches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from ..model.codec import decode_live, encode_live
from ..model.live import Handover
from .announce import replace

WATCHED = "watched"
HANDED_OVER = "handover"
INTEREST_NS = 5_000_000_000  # after which a watcher who touched the file no more is taken to be gone
EVERY_NS = 2_000_000_000
REST = 200  # times what the last handover cost us: never more than half a percent of a core
BYTES_AT_MOST = 64 << 20


class Onlookers:
    """Asks a file's time whether anybody watches. Nothing here raises."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._touched = 0
        self._interest_ends_ns = 0
        self._next_ns = 0

    def look(self, now_ns: int, seen: Callable[[], Handover]) -> None:
        """Hand over what was ``seen``, if somebody wants it and it is time."""
        if not self._are_there(now_ns) or now_ns < self._next_ns:
            return
        began_ns = time.thread_time_ns()
        try:
            replace(self._folder / HANDED_OVER, encode_live(seen()))
        except Exception:  # our bug or a kernel's oddity: the supervisor has more important things to do
            self._next_ns = 1 << 63
            return
        self._next_ns = now_ns + max(EVERY_NS, REST * (time.thread_time_ns() - began_ns))

    def _are_there(self, now_ns: int) -> bool:
        """The wall clock may jump: what counts is that the file's time changed, and when we saw that."""
        try:
            touched = os.stat(self._folder / WATCHED).st_mtime_ns
        except OSError:
            return False
        if touched != self._touched:
            self._touched, self._interest_ends_ns = touched, now_ns + INTEREST_NS
        return now_ns < self._interest_ends_ns


def show_interest(folder: Path) -> None:
    """Tell the supervisor that somebody watches; to be repeated within five seconds."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(folder / WATCHED, flags, 0o600)
    except OSError:
        return
    try:
        os.utime(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def read_handover(folder: Path) -> Handover | None:
    """What the supervisor handed over last; None when it has not yet, or the folder is gone."""
    try:
        with open(folder / HANDED_OVER, "rb") as file:
            return decode_live(file.read(BYTES_AT_MOST), Handover)
    except OSError:
        return None
