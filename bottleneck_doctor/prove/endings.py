"""Says what became of a trial: how it ended, what it printed last, and what was seen of the machine."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass, field

from ..model.profile import Profile

LETTERS_AT_MOST = 200
LINES_READ = 200  # of a launcher, with the tracebacks of several ranks

# What torch, Python and the kernel's messengers say when memory, shared or the device's, was not to be had.
SHORT = re.compile(
    r"MemoryError|OutOfMemoryError|out of memory|[Cc]annot allocate memory|can't allocate memory"
    r"|[Bb]us error|out of shared memory|unable to (?:write|mmap|allocate).*shared memory"
)
ERROR = re.compile(r"^(?:\[rank\d+\]:? *)?(?:\w+\.)*\w*(?:Error|Exception|Exit)\b(?!:?$)")
# What the others say when one process of several has failed.
ECHO = re.compile(r"[Cc]onnection (?:closed|reset) by peer|ChildFailedError|remote process|Broken pipe")
KILLED = re.compile(r"killed by signal: Killed")


@dataclass(frozen=True)
class Seen:
    """How one run went: the exit ``status``, or why it was ended by us (``still``, ``scarce``); ``lines`` of
    its output, the last ones; ``short_of_memory``: the kernel has killed meanwhile."""

    status: int | None = None
    still: str = ""
    scarce: str = ""
    interrupted: bool = False
    short_of_memory: bool = False
    lines: list[str] = field(default_factory=list)


def judged(seen: Seen, profile: Profile | None) -> tuple[str, str]:
    """The outcome of a trial, and why."""
    if seen.interrupted:
        return "interrupted", "interrupted"
    if seen.scarce:
        return "out-of-memory", seen.scarce
    if seen.still:
        return "hung", seen.still
    if seen.status == 0:
        return ("measured", "") if profile is not None else ("broke", _said(seen) or "no profile was written")
    ending = _ending(seen.status or 0)
    if short := next((line for line in reversed(seen.lines[-LINES_READ:]) if SHORT.search(line)), ""):
        return "out-of-memory", _short(short)
    killed = ending == "killed" or any(KILLED.search(line) for line in seen.lines[-LINES_READ:])
    if killed and seen.short_of_memory:
        return "out-of-memory", "the kernel killed one of its processes for want of memory"
    said = _said(seen)
    return "broke", f"{said} ({ending})" if said else ending


def _ending(status: int) -> str:
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return "killed"
    if number in set(signal.Signals):
        return f"died of {signal.Signals(number).name}"
    return f"exit status {status}"


def _said(seen: Seen) -> str:
    """The last error that it printed, for launchers print a banner below it; else the last line."""
    lines = seen.lines[-LINES_READ:]
    errors = [line for line in lines if ERROR.match(line)]
    own = [line for line in errors if not ECHO.search(line)]
    return _short((own or errors or lines or [""])[-1])


def _short(line: str) -> str:
    return line if len(line) <= LETTERS_AT_MOST else line[: LETTERS_AT_MOST - 1] + "…"
