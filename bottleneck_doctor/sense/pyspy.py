"""Finds py-spy, reads the stacks it writes, and explains why it could not sample."""

from __future__ import annotations

import contextlib
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..model.instruments import Stack
from ..model.run import Gap
from .files import read_stat, what_allows, why_refused, yama_scope

WHAT = "python stacks (py-spy)"
MOST_PATHS = 400
INSTALL = "pip install py-spy"
REPAIR = "pip install --force-reinstall py-spy"  # a wheel for another machine, or a file that was damaged

_PROCESS = re.compile(r'process (\d+):"')
_THREAD = re.compile(r"(?:^|;)thread \(([^)]*)\)(?:: ([^;]*))?")
_REFUSED = re.compile(r"permission denied|not permitted|EPERM|EACCES", re.IGNORECASE)
_ERROR = re.compile(r"^Error: (.+)$", re.MULTILINE)


def find_py_spy() -> str | None:
    """The executable next to our interpreter, else on the PATH."""
    neighbour = Path(sys.executable).with_name("py-spy")
    return str(neighbour) if os.access(neighbour, os.X_OK) else shutil.which("py-spy")


def parse_folded(text: str, default_pid: int) -> list[Stack]:
    """The heaviest paths of ``py-spy --format raw``, outermost frame first; the role is left empty."""
    counts: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        if path and count.isdigit():
            counts[_split(path, default_pid)] += int(count)
    return [
        Stack(pid, "", thread, list(frames), count)
        for (pid, thread, frames), count in counts.most_common(MOST_PATHS)
        if frames
    ]


Looks = Mapping[int, list[Stack]]  # process -> what one run of py-spy saw of it


def compared(every: Looks, awake: Looks, holding: Looks) -> list[Stack]:
    """The stacks of each process, with the samples of two more looks: at threads on or ready for a core, and
    at those that held the interpreter's lock.

    Where a further look failed the stacks stay without it; where it saw no thread, all slept or were in C.
    """
    found: list[Stack] = []
    for target, stacks in every.items():
        for look, column in ((awake, "running"), (holding, "holding")):
            if target in look:
                stacks = _with_column(stacks, look[target], column)
        found += stacks
    return found


def _with_column(stacks: list[Stack], look: list[Stack], column: str) -> list[Stack]:
    """The stacks with another look's samples in that column; paths that only this look met are added."""
    counts = {_path(one): one.count for one in look}

    def counted(one: Stack, samples: int) -> Stack:
        return replace(one, running=samples) if column == "running" else replace(one, holding=samples)

    known = [counted(one, counts.pop(_path(one), 0)) for one in stacks]
    return known + [counted(replace(one, count=0), one.count) for one in look if _path(one) in counts]


def add_up(known: list[Stack], more: list[Stack]) -> list[Stack]:
    """The stacks of two windows as one list, the heaviest first, of bounded length."""
    found = {_path(one): one for one in known}
    for one in more:
        before = found.get(_path(one))
        found[_path(one)] = one if before is None else _sum(before, one)
    return sorted(found.values(), key=lambda stack: -stack.count)[: 2 * MOST_PATHS]


def _sum(one: Stack, other: Stack) -> Stack:
    def both(left: int | None, right: int | None) -> int | None:
        return None if left is None and right is None else (left or 0) + (right or 0)

    running, holding = both(one.running, other.running), both(one.holding, other.holding)
    return replace(one, count=one.count + other.count, running=running, holding=holding)


def _path(stack: Stack) -> tuple[int, str, tuple[str, ...]]:
    return stack.pid, stack.thread, tuple(stack.frames)


def explain(pid: int, message: str, root: Path = Path("/"), program: str | None = None) -> Gap:
    """Why py-spy saw nothing of ``pid``, from its message and from /proc; and what would allow it."""
    if read_stat(root / "proc", pid)[:1] in ([], ["Z"]):  # gone, or not waited for by its parent
        return Gap(WHAT, f"process {pid} has ended before the window was over")
    # With --subprocesses py-spy says "no python processes" also when it may not look at any.
    none = "No python processes" in message
    if _REFUSED.search(message) or not _may_read_memory(pid, root) or (none and yama_scope(root)):
        why = why_refused(pid, root)
        no = f"py-spy may not look into process {pid}" + (f": {why}" if why else "")
        return Gap(WHAT, no, what_allows(pid, root, program))
    if none:
        return Gap(WHAT, f"py-spy does not know the Python of process {pid}", "pip install --upgrade py-spy")
    error = _ERROR.search(message)
    return Gap(WHAT, error.group(1) if error else f"py-spy ended without stacks of process {pid}")


def _split(path: str, default_pid: int) -> tuple[int, str, tuple[str, ...]]:
    """Process, thread and frames. Command lines come quoted and may hold anything: seek the thread first."""
    thread = _THREAD.search(path)
    if thread is None:
        return default_pid, "", tuple(path.split(";"))
    pids = _PROCESS.findall(path[: thread.start()])
    frames = tuple(frame for frame in path[thread.end() :].split(";") if frame)
    return int(pids[-1]) if pids else default_pid, thread.group(2) or thread.group(1), frames


def _may_read_memory(pid: int, root: Path) -> bool:
    try:
        with (root / "proc" / str(pid) / "mem").open("rb"):
            return True
    except OSError:
        return False


MOST_TARGETS = 8
GRACE_S = 10.0  # to read the symbols before, and to write the stacks after the window
# --nonblocking accepts a torn stack in a hundred instead of stopping the training at every sample.
OPTIONS = "--threads --nonblocking --full-filenames --format raw".split()
# With threads that sleep, waits for locks and disks are seen with their lines. A thread that holds the
# interpreter's lock is in Python, not in an operator, which lets the lock go.
KINDS: dict[str, tuple[str, ...]] = {"every": ("--idle",), "awake": (), "holding": ("--gil",)}


class StackWindow:
    """A running window of py-spy on each of ``pids``: trainers, or the launcher. ``children`` are followed at
    20 ms of CPU. py-spy is given a duration, so that not even our death leaves it behind."""

    def __init__(
        self, pids: Sequence[int], seconds: float, rate_hz: int, kind: Sequence[str], children: bool = True
    ) -> None:
        self.gaps: list[Gap] = []
        self.cpu_s = 0.0  # of those that have ended
        # Of those that could be sampled; [] if no thread was there.
        self.by_target: dict[int, list[Stack]] = {}
        self._deadline_s = time.monotonic() + seconds + GRACE_S
        self._spies: dict[int, subprocess.Popen[bytes]] = {}
        self._program = find_py_spy()
        self._folder: Path | None = None
        if self._program is None:
            self.gaps.append(Gap(WHAT, "py-spy was not found", INSTALL))
            return
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="bdoc-stacks-"))
        except OSError as error:
            self.gaps.append(Gap(WHAT, f"no temporary folder can be made: {error}", "set TMPDIR"))
            return
        if len(pids) > MOST_TARGETS:
            why = f"{len(pids) - MOST_TARGETS} of {len(pids)} processes were left out to bound the cost"
            self.gaps.append(Gap(WHAT, why))
        followed = ["--subprocesses"] if children else []
        times = ["--rate", str(rate_hz), "--duration", str(math.ceil(seconds))]
        for pid in pids[:MOST_TARGETS]:
            self._start([self._program, "record", *OPTIONS, *kind, *followed, *times], pid, self._folder)

    def is_over(self) -> bool:
        """Whether the window is over; then ``by_target`` has its stacks, ``gaps`` what is missing."""
        running = any(self._runs(spy) for spy in self._spies.values())
        if running and time.monotonic() < self._deadline_s:
            return False
        self.close()
        return True

    def close(self) -> None:
        """Ends py-spy early if it still runs, and takes what it has seen until now."""
        for pid, spy in self._spies.items():
            overdue = self._runs(spy)
            before_s = _reaped_cpu_s()
            _end(spy)
            self.cpu_s += _reaped_cpu_s() - before_s
            written = self._text(pid, "raw")
            found = parse_folded(written or "", pid)
            if written is not None:  # py-spy writes the file even if it saw no thread
                self.by_target[pid] = found
            if not found and overdue:
                self.gaps.append(Gap(WHAT, f"py-spy had not finished with process {pid} when it was stopped"))
            elif not found:
                self.gaps.append(explain(pid, self._text(pid, "log") or "", program=self._program))
        self._spies = {}
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _runs(self, spy: subprocess.Popen[bytes]) -> bool:
        """Whether it has not ended; what it used is known when it is waited for."""
        before_s = _reaped_cpu_s()
        runs = spy.poll() is None
        self.cpu_s += _reaped_cpu_s() - before_s
        return runs

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

    def _text(self, pid: int, suffix: str) -> str | None:
        assert self._folder is not None
        try:
            return (self._folder / f"{pid}.{suffix}").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None


def _reaped_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end(spy: subprocess.Popen[bytes]) -> None:
    """Ends the whole session of py-spy, harshly if need be, and waits for it."""
    if spy.poll() is not None:
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):  # interrupted, py-spy writes what it has
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(spy.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            spy.wait(timeout=2.0)
            return
