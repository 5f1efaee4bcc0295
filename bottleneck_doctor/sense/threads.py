"""Looks at a thread of another process through files that stay open, since opening costs ten reads."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from .channels import Wait, class_of_channel

GONE = frozenset((errno.ESRCH, errno.ENOENT))
# select and poll on no descriptors at all are sleeps: Python 3.10's time.sleep is one.
COUNT_ARGUMENT = {"select": 1, "pselect6": 1, "poll": 2, "ppoll": 2}


class Thread:
    """The open files of one thread. ``refused`` says why its system call cannot be read, "" if it can."""

    def __init__(self, pid: int, tid: int, calls: dict[int, tuple[str, str]], root: Path = Path("/")) -> None:
        folder = root / "proc" / str(pid) / "task" / str(tid)
        self.pid = pid
        self.refused = ""
        self._calls = calls
        self._call = self._channel = -1
        self._stat = os.open(folder / "stat", os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):
            self._channel = os.open(folder / "wchan", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._call = os.open(folder / "syscall", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.refused = error.strerror or str(error)

    def close(self) -> None:
        """Closes what is open; may be called twice."""
        for descriptor in (self._stat, self._channel, self._call):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._stat = self._channel = self._call = -1

    def look(self) -> tuple[Wait, int] | None:
        """What the thread waits in and its call's first argument; None when it runs or may run.

        Raises ProcessLookupError once the thread has ended.
        """
        words = self._call_words()
        if words and words[0] == "running":
            return None
        channel = self._wait_channel()
        kind, name = self._kind(words)
        if words and kind != "fault" and class_of_channel(channel) is not None:
            return Wait("", channel, kind, name), _argument(words, 1)
        state = self._state()
        if state in ("Z", "X", "T", "t", "I"):
            raise ProcessLookupError(errno.ESRCH, f"thread is in state {state}")
        if state == "R" and not words:
            return None
        return Wait(state, channel, kind, name), _argument(words, 1)

    def _call_words(self) -> list[str]:
        if self._call < 0:
            return []
        try:
            return os.pread(self._call, 256, 0).decode("ascii", "replace").split()
        except OSError as error:
            if error.errno in GONE:
                raise ProcessLookupError(errno.ESRCH, "thread has ended") from error
            self.refused = error.strerror or str(error)
            os.close(self._call)
            self._call = -1
            return []

    def _wait_channel(self) -> str:
        if self._channel < 0:
            return ""
        try:
            name = os.pread(self._channel, 128, 0).decode("ascii", "replace").strip()
        except OSError:
            return ""
        return "" if name == "0" else name

    def _state(self) -> str:
        text = os.pread(self._stat, 512, 0)
        return chr(text[text.rindex(b")") + 2])  # the name in brackets may hold any character

    def _kind(self, words: list[str]) -> tuple[str, str]:
        if not words:
            return "", ""
        number = int(words[0]) if words[0].lstrip("-").isdigit() else None
        if number == -1:
            return "fault", ""
        unlisted = ("other", "") if self._calls else ("", "")
        kind, name = self._calls.get(number, unlisted) if number is not None else ("", "")
        counted = COUNT_ARGUMENT.get(name)
        if counted is not None and _argument(words, counted) == 0:
            return "sleep", name
        return kind, name


def _argument(words: list[str], place: int) -> int:
    try:
        return int(words[place], 16)
    except (IndexError, ValueError):
        return -1
