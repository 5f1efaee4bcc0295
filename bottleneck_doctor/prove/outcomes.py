"""The outcome of a trial: how it ended, what it printed last, and what was seen of the machine."""

from __future__ import annotations

import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from ..launch import run_registry
from ..launch.agent_counters import Board
from ..launch.folder import PREFIX
from .trial_limits import Limits

SETTLING_STEPS = 10  # in which compilers and tuners may take as long as a start


@dataclass
class HangDetector:
    """One trial's progress. ``trained`` steps so far, of the process that has come furthest; ``is_over`` when
    none of those that trained lives."""

    place: Path
    limits: Limits
    started_ns: int = field(default_factory=time.monotonic_ns)
    trained: int = 0
    is_over: bool = False
    _board: Board | None = None

    def look(self, now_ns: int) -> str:
        """Why the trial is taken to hang; "" while it makes progress."""
        newest_ns = self._newest_ns()
        if self.is_over:
            return ""  # bdoc is still writing after the training's end
        if newest_ns is None:
            waited_s = (now_ns - self.started_ns) / 1e9
            late = waited_s > self.limits.first_batch_s
            return f"no first batch within {self.limits.first_batch_s:.0f} s" if late else ""
        settles = self.trained < SETTLING_STEPS
        may_s = max(self.limits.silence_s, self.limits.first_batch_s if settles else 0.0)
        if (now_ns - newest_ns) / 1e9 <= may_s:
            return ""
        if self.trained >= self.limits.steps:
            return f"it did not end within {may_s:.0f} s of its last step"
        return f"no batch for {may_s:.0f} s, after {self.trained} steps"

    def _newest_ns(self) -> int | None:
        """When the newest batch of all processes came; None before the first."""
        if self._board is None:
            folder = next(self.place.glob(PREFIX + "*"), None)
            if folder is None:
                return None
            self._board = Board(folder, in_command=False)
        self._board.refresh()
        progress = self._board.progress()
        if not progress:
            return None
        self.trained = max(one.trained or one.steps for one in progress)
        self.is_over = all(run_registry.lifetime(one.pid) is None for one in progress)
        return max(one.last_ns for one in progress)


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


def outcome_of(status: int, lines: list[str], short_of_memory: bool, has_profile: bool) -> tuple[str, str]:
    """The outcome of a trial that ended by itself, and why: by its exit status, the last lines of its output,
    and whether the kernel killed a process for want of memory in this time."""
    lines = lines[-LINES_READ:]
    error = _last_error(lines)
    if status == 0:
        return ("measured", "") if has_profile else ("broke", error or "no profile was written")
    ending = _ending(status)
    if short := next((line for line in reversed(lines) if SHORT.search(line)), ""):
        return "out-of-memory", _short(short)
    killed = ending == "killed" or any(KILLED.search(line) for line in lines)
    if killed and short_of_memory:
        return "out-of-memory", "the kernel killed one of its processes for want of memory"
    return "broke", f"{error} ({ending})" if error else ending


def _ending(status: int) -> str:
    number = -status if status < 0 else status - 128
    if number == signal.SIGKILL:
        return "killed"
    if number in set(signal.Signals):
        return f"died of {signal.Signals(number).name}"
    return f"exit status {status}"


def _last_error(lines: list[str]) -> str:
    """The last error that it printed, for launchers print a banner below it; else the last line."""
    errors = [line for line in lines if ERROR.match(line)]
    own = [line for line in errors if not ECHO.search(line)]
    return _short((own or errors or lines or [""])[-1])


def _short(line: str) -> str:
    return line if len(line) <= LETTERS_AT_MOST else line[: LETTERS_AT_MOST - 1] + "…"
