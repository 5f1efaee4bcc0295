"""Exceptions of signal handlers that ran where Python drops exceptions: raised by the next hook instead."""

from __future__ import annotations

from threading import get_ident

from .guard import from_signal

postponed: list[tuple[int, BaseException]] = []  # thread, exception


def postpone(error: BaseException) -> None:
    """Keep an exception that reached us where Python drops all of them, as in a callback of the collector:
    the next hook of the same thread raises it. Our own mistakes are dropped."""
    if from_signal(error) or not isinstance(error, Exception):
        postponed.append((get_ident(), error))


def raise_postponed() -> None:
    """Raise what was postponed in this thread, if anything was."""
    for entry in postponed:
        if entry[0] == get_ident():
            postponed.remove(entry)
            raise entry[1]
