"""Ends the training cleanly when the supervisor orders it."""

from __future__ import annotations

import mmap
import os
import sys
import threading

from . import wire
from .guard import keep
from .hints import Callable
from .state import state

AGAIN_AT_MOST = 3
before: list[Callable[[], object]] = []  # called when the training is to end


class Control:
    """The supervisor's orders, in a file that every process of the run maps."""

    def __init__(self, folder: str) -> None:
        # Reading a map of a file that was cut raises SIGBUS: only this user's processes can cut this one.
        handle = wire.open_ours(os.path.join(folder, "control"), os.O_RDONLY)
        try:
            self.map = keep(mmap.mmap(handle, wire.CONTROL_BYTES, mmap.MAP_SHARED, mmap.PROT_READ))
        finally:
            os.close(handle)
        self.profiled = 0
        self.windows_done = 0
        self.again = 0
        self.on_profile: Callable[[], None] | None = None

    def look(self) -> None:
        """Called at sampled steps only: read a stop order, or a request for a profiler window."""
        state.stop_at = wire.WORD.unpack_from(self.map, wire.STOP_AT)[0]
        wanted = wire.WORD.unpack_from(self.map, wire.PROFILE)[0]
        if wanted > self.profiled and self.on_profile is not None:
            self.profiled = wanted
            self.on_profile()

    def ask_again(self) -> None:
        """A window recorded no training: request another one, a few times at most."""
        if self.again < AGAIN_AT_MOST:
            self.again += 1
            self.profiled -= 1


def due() -> bool:
    """Whether this thread should end the training now."""
    here, main = threading.current_thread(), threading.main_thread()
    return state.trained >= state.stop_at and not state.worker and here is main


def stop() -> None:
    """Unwind the script as ``sys.exit(0)`` on that line would: finally blocks and exit hooks run.

    A script that swallows it (a bare ``except``) is asked again at its next batch.
    """
    state.writer.fact(fact="stopped", trained=state.trained)
    for callback in before:
        callback()
    sys.exit(0)
