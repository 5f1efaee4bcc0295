"""Lets Ctrl-Z stop a trial: it is in a session of its own, where the terminal's signals do not reach it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..launch.signals import stop_ourselves


@dataclass
class Pause:
    """``is_wanted`` since somebody asked us to stop."""

    is_wanted: bool = False

    def take(self) -> None:
        """Stop, as was asked; returns when somebody continues us."""
        stop_ourselves(signal.SIGTSTP)
        self.is_wanted = False


@contextmanager
def pausable() -> Iterator[Pause]:
    """Hold requests to stop for the time of the block, where they are not ignored or somebody else's."""
    pause = Pause()
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield pause
        return

    def want(*_: object) -> None:
        pause.is_wanted = True

    signal.signal(signal.SIGTSTP, want)
    try:
        yield pause
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if pause.is_wanted:
            pause.take()
