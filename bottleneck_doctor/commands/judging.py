"""The verdict so far, in a process of its own that takes only the cycles and the memory nobody else wants."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..assemble.profile import Remains
    from ..model.report import Report

EVERY_NS = 5_000_000_000
REST = 20  # times what the last verdict cost in CPU time
BYTES_PER_ROW_BYTE = 7  # of memory, while rows are read (measured: 6.1)
SHARE_OF_MEMORY = 0.25  # of what is available, at most
LARGEST = 1 << 20


class Judge:
    """Asks for a verdict now and then; ``report`` is the newest one. Nothing here waits, nothing raises."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.problem = ""
        self.cost_s = 0.0
        self._child = 0
        self._pipe = -1
        self._begun_ns = self._next_ns = 0
        self._read = b""

    @property
    def busy(self) -> bool:
        """Whether a verdict is being made."""
        return self._child != 0

    def look(self, now_ns: int, folder: Path, remains: Callable[[], Remains | None]) -> None:
        """Take a verdict that is finished; begin the next one when it is due."""
        if self.busy:
            self._take()
        elif now_ns >= self._next_ns and (left := remains()) is not None:
            self.problem = _too_large(folder)
            self._next_ns = now_ns + EVERY_NS
            if not self.problem:
                self._begin(now_ns, left)

    def close(self) -> None:
        """Let the one that is being made go."""
        if self.busy:
            with suppress(OSError):
                os.kill(self._child, signal.SIGKILL)
            self._reap()

    def _begin(self, now_ns: int, remains: Remains) -> None:
        reader, writer = os.pipe()
        try:
            self._child = os.fork()
        except OSError as error:
            self.problem = f"no process for it: {error.strerror}"
            os.close(reader)
            os.close(writer)
            return
        if self._child == 0:
            os.close(reader)
            _work(writer, remains)
        os.close(writer)
        os.set_blocking(reader, False)
        self._pipe, self._read, self._begun_ns = reader, b"", now_ns

    def _take(self) -> None:
        try:
            while piece := os.read(self._pipe, LARGEST):
                self._read += piece
        except BlockingIOError:
            return
        self._reap()
        try:
            found = pickle.loads(self._read)  # from our own child, through a pipe that nobody else has
        except Exception:
            found = "it was ended from outside"
        self.problem = found if isinstance(found, str) else ""
        self.report = self.report if isinstance(found, str) else found

    def _reap(self) -> None:
        _, _, usage = os.wait4(self._child, 0)
        os.close(self._pipe)
        self.cost_s = usage.ru_utime + usage.ru_stime
        self._next_ns = max(self._begun_ns + EVERY_NS, time.monotonic_ns() + int(REST * self.cost_s * 1e9))
        self._child, self._pipe = 0, -1


def step_back() -> None:
    """This process gives way to everything else that runs on the machine."""
    with suppress(OSError):
        os.nice(19)


def _work(writer: int, remains: Remains) -> None:
    """In the child, which never returns."""
    try:
        _be_idle()
        data = pickle.dumps(_judged(remains))
        while data:
            data = data[os.write(writer, data) :]
    except BaseException:  # nobody is left to read it
        pass
    finally:
        os._exit(0)


def _judged(remains: Remains) -> Report | str:
    from ..assemble.profile import assemble
    from ..prescribe import write_up

    try:
        return write_up(assemble(remains))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _be_idle() -> None:
    """Idle for the scheduler, and so for disks; a group of its own; first to go when memory ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    for name, value in {"autogroup": "19", "oom_score_adj": "1000"}.items():
        with suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(value)


def _too_large(folder: Path) -> str:
    """Why the rows are not read now: that takes memory which the training may need."""
    rows = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".rows"):
                with suppress(OSError):
                    rows += entry.stat().st_blocks * 512
    available = _available_bytes()
    if available is None or rows * BYTES_PER_ROW_BYTE <= SHARE_OF_MEMORY * available:
        return ""
    return "judging so long a run takes more memory than is free; `bdoc run` does it at the end"


def _available_bytes() -> int | None:
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None
