"""Takes a window of Python stacks with py-spy, as a process beside the job that never pauses it."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..model.profile import Gap, Stack
from .pyspy import INSTALL, MOST_PATHS, REPAIR, WHAT, explain, find_py_spy, parse_folded

MOST_TARGETS = 8
LONGEST_WINDOW_S = 60.0
GRACE_S = 10.0  # to read the symbols before, and to write the stacks after the window


class StackWindow:
    """A running window. py-spy is given a duration, so that not even our death leaves it behind."""

    def __init__(
        self, pids: Sequence[int], seconds: float, options: Sequence[str], program: str | None
    ) -> None:
        self.gaps: list[Gap] = []
        self.by_target: dict[
            int, list[Stack]
        ] = {}  # of those that could be looked at; [] if nobody was there
        self._folder = self._make_folder()
        self._deadline_s = time.monotonic() + seconds + GRACE_S
        self._spies: dict[int, subprocess.Popen[bytes]] = {}
        self._stacks: list[Stack] | None = None
        self._program = program
        if self._folder is None:
            return
        if program is None:
            self.gaps.append(Gap(WHAT, "py-spy was not found", INSTALL))
            return
        if len(pids) > MOST_TARGETS:
            why = f"{len(pids) - MOST_TARGETS} of {len(pids)} processes were left out to bound the cost"
            self.gaps.append(Gap(WHAT, why))
        for pid in pids[:MOST_TARGETS]:
            self._start([program, "record", *options], pid, self._folder)

    def poll(self) -> list[Stack] | None:
        """None while the window runs; then its stacks, which may be none: ``gaps`` says why."""
        if self._stacks is None:
            running = any(spy.poll() is None for spy in self._spies.values())
            if running and time.monotonic() < self._deadline_s:
                return None
            self._finish()
        return self._stacks

    def close(self) -> None:
        """Ends py-spy early if it still runs, and takes what it has seen until now."""
        if self._stacks is None:
            self._finish()

    def _make_folder(self) -> Path | None:
        try:
            return Path(tempfile.mkdtemp(prefix="bdoc-stacks-"))
        except OSError as error:
            self.gaps.append(Gap(WHAT, f"no temporary folder can be made: {error}", "set TMPDIR"))
            return None

    def _start(self, command: Sequence[str], pid: int, folder: Path) -> None:
        target = ["--pid", str(pid), "--output", str(folder / f"{pid}.raw")]
        try:
            with (folder / f"{pid}.log").open("wb") as log:
                # A session of its own, so that what a wrapper script started ends with the wrapper.
                self._spies[pid] = subprocess.Popen(
                    [*command, *target],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "RUST_BACKTRACE": "0"},
                    start_new_session=True,
                )
        except OSError as error:
            self.gaps.append(Gap(WHAT, f"{command[0]} cannot be started: {error.strerror}", REPAIR))

    def _finish(self) -> None:
        for pid, spy in self._spies.items():
            overdue = spy.poll() is None
            _end(spy)
            told = self._text(pid, "raw")
            found = parse_folded((told or "").splitlines(), pid)
            if told is not None:  # py-spy writes the file when it has looked, even if at nobody
                self.by_target[pid] = found
            if not found and overdue:
                self.gaps.append(Gap(WHAT, f"py-spy had not finished with process {pid} when it was stopped"))
            elif not found:
                self.gaps.append(explain(pid, self._text(pid, "log") or "", program=self._program))
        stacks = [stack for found in self.by_target.values() for stack in found]
        self._stacks = sorted(stacks, key=lambda stack: -stack.count)[:MOST_PATHS]
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _text(self, pid: int, suffix: str) -> str | None:
        assert self._folder is not None
        try:
            return (self._folder / f"{pid}.{suffix}").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def start_window(
    pids: Sequence[int],
    seconds: float,
    rate_hz: int,
    py_spy_path: str | None = None,
    idle: bool = True,
    gil: bool = False,
) -> StackWindow:
    """Starts py-spy on each process of ``pids`` and all their children for ``seconds``.

    Name trainers, or the launcher, and not their workers: children are followed. ``idle`` keeps threads that
    sleep, so that waits for locks and disks are seen with their lines; ``gil`` keeps only the thread that
    holds the interpreter's lock: it is in Python, not in an operator, which lets the lock go.
    """
    assert seconds > 0 and rate_hz > 0
    seconds = min(seconds, LONGEST_WINDOW_S)
    # --subprocesses follows forked loader workers too; --nonblocking accepts a torn stack in a hundred
    # instead of stopping the training at every sample.
    options = "--subprocesses --threads --nonblocking --full-filenames --format raw".split()
    options += ["--rate", str(rate_hz), "--duration", str(math.ceil(seconds)), *(["--idle"] if idle else [])]
    options += ["--gil"] if gil else []
    return StackWindow(pids, seconds, options, find_py_spy(py_spy_path))


def _end(spy: subprocess.Popen[bytes]) -> None:
    """Ends the whole session of py-spy, harshly if need be, and waits for it."""
    if spy.poll() is None:
        for number in (
            signal.SIGINT,
            signal.SIGTERM,
            signal.SIGKILL,
        ):  # interrupted, py-spy writes what it has
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(spy.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                spy.wait(timeout=2.0)
                return
