"""The training as a process: starting it as a shell would, and looking at how it fares."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping

from .command import CannotStart, Command

NOT_EXECUTABLE = 126
NOT_FOUND = 127


def spawn(command: Command, environ: Mapping[str, str], mask: Iterable[int]) -> int:
    """Start it in our process group, with our very descriptors and the mask we were started with; its pid.

    Python ignores SIGPIPE and SIGXFSZ for itself; the child gets them back, as from ``subprocess``.
    """
    try:
        return os.posix_spawnp(
            command.argv[0],
            command.argv,
            environ,
            setsigmask=mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        raise _refused(command.argv[0], error) from error


def look(pid: int) -> int | None:
    """The newest change of state as a wait status; None when nothing changed. Reaps it when it has ended."""
    newest = None
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if found == 0:
            return newest
        newest = status
        if has_ended(status):
            return newest


def has_ended(status: int) -> bool:
    """Whether a wait status is the last one."""
    return os.WIFEXITED(status) or os.WIFSIGNALED(status)


def _refused(program: str, error: OSError) -> CannotStart:
    why = f"cannot start {program!r}: {(error.strerror or str(error)).lower()}"
    if error.errno == errno.ENOENT:
        hint = "if it exists, the interpreter named in its first line does not"
        return CannotStart("start-not-found", f"{why}; {hint}", NOT_FOUND)
    if error.errno == errno.ENOEXEC:
        why += "; a script needs a first line such as '#!/bin/sh', or start it with 'sh'"
    return CannotStart("start-refused", why, NOT_EXECUTABLE)
