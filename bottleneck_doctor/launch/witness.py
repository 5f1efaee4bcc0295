"""A bystander in our process group: it tells whether a signal was sent to all of us or to us alone.

The training shares our process group, as it would share the shell's job without us, so that Ctrl-C, Ctrl-Z,
pipelines and a SIGKILL to the job work by themselves. What is sent to the group has reached the training and
must not be passed on once more; what is sent to our pid alone must be. The kernel does not say which of the
two it was. So a process that blocks every signal stands by: what waits for it was sent to the group.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass


@dataclass(frozen=True)
class Witness:
    """``cat`` reading from a pipe that nobody writes to; it ends with us, however we end."""

    pid: int
    lifeline: int


def station() -> Witness | None:
    """Put a witness into our group, or None where that is impossible."""
    reader, writer = os.pipe()
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    try:
        pid = os.posix_spawnp(
            "cat",
            ["cat"],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *quiet],
            setsigmask=signal.valid_signals(),
        )
    except OSError:
        os.close(writer)
        return None
    finally:
        os.close(reader)
    return Witness(pid, writer)


def saw(witness: Witness | None, number: int) -> bool | None:
    """Whether the signal reached the witness too; None when that cannot be told."""
    if witness is None:
        return None
    try:
        with open(f"/proc/{witness.pid}/status", encoding="ascii", errors="replace") as file:
            waiting = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return None
    return any(mask >> (number - 1) & 1 for mask in waiting)


def relieve(witness: Witness | None) -> Witness | None:
    """A fresh witness for one that has seen something: what waits for it would hide the next one."""
    successor = station()
    dismiss(witness)
    return successor


def dismiss(witness: Witness | None) -> None:
    """Send the witness home; SIGKILL, because it may be stopped with the job."""
    if witness is not None:
        os.kill(witness.pid, signal.SIGKILL)
        os.waitpid(witness.pid, 0)
        os.close(witness.lifeline)
