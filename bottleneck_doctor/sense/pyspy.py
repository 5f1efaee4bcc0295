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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..model.instruments import Stack
from ..model.run import Gap
from .proc_files import read_text, what_allows, why_refused, yama_scope

WHAT = "python stacks (py-spy)"
MOST_PATHS = 400
INSTALL = "pip install py-spy"
REPAIR = "pip install --force-reinstall py-spy"  # a wheel for another machine, or a file that was damaged

_PROCESS = re.compile(r'process (\d+):"')
_THREAD = re.compile(r"(?:^|;)thread \(([^)]*)\)(?:: ([^;]*))?")
_REFUSED = re.compile(r"permission denied|not permitted|EPERM|EACCES", re.IGNORECASE)
_ERROR = re.compile(r"^Error: (.+)$", re.MULTILINE)


def find_py_spy(given: str | None = None) -> str | None:
    """The executable: as given, else next to our interpreter, else on the PATH."""
    beside = Path(sys.executable).with_name("py-spy")
    if given is not None:
        return shutil.which(given)
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def parse_folded(lines: Iterable[str], default_pid: int, most: int = MOST_PATHS) -> list[Stack]:
    """The heaviest paths of ``py-spy --format raw``, outermost frame first; the role is left empty."""
    counts: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    for line in lines:
        path, _, count = line.rstrip("\n").rpartition(" ")
        if path and count.isdigit():
            counts[_split(path, default_pid)] += int(count)
    return [
        Stack(pid, "", thread, list(frames), count)
        for (pid, thread, frames), count in counts.most_common(most)
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
        if target in awake:
            stacks = _counted(stacks, awake[target], "running")
        if target in holding:
            stacks = _counted(stacks, holding[target], "holding")
        found += stacks
    return found


def add_up(known: list[Stack], more: list[Stack]) -> list[Stack]:
    """The stacks of two windows as one list, the heaviest first, of bounded length."""
    found = {_path(one): one for one in known}
    for one in more:
        before = found.get(_path(one))
        found[_path(one)] = one if before is None else _sum(before, one)
    return sorted(found.values(), key=lambda stack: -stack.count)[: 2 * MOST_PATHS]


def _sum(one: Stack, other: Stack) -> Stack:
    def both(name: str) -> int | None:
        values = [value for stack in (one, other) if (value := getattr(stack, name)) is not None]
        return sum(values) if values else None

    return replace(one, count=one.count + other.count, running=both("running"), holding=both("holding"))


def _counted(stacks: list[Stack], look: list[Stack], column: Literal["running", "holding"]) -> list[Stack]:
    """The stacks with another look's samples in that column; paths that only this look met are added."""
    counts = Counter({_path(one): one.count for one in look})

    def told(one: Stack, samples: int) -> Stack:
        return replace(one, running=samples) if column == "running" else replace(one, holding=samples)

    known = [told(one, counts.pop(_path(one), 0)) for one in stacks]
    missed = [told(replace(one, count=0), left) for one in look if (left := counts.pop(_path(one), 0))]
    return known + missed


def _path(stack: Stack) -> tuple[int, str, tuple[str, ...]]:
    return stack.pid, stack.thread, tuple(stack.frames)


def explain(pid: int, message: str, root: Path = Path("/"), program: str | None = None) -> Gap:
    """Why py-spy saw nothing of ``pid``, from its message and from /proc; and what would allow it."""
    if _has_ended(pid, root):
        return Gap(WHAT, f"process {pid} has ended before the window was over")
    # With --subprocesses py-spy says "no python processes" also when it may not look at any.
    none = "No python processes" in message
    if _REFUSED.search(message) or not _may_read_memory(pid, root) or (none and yama_scope(root)):
        why = why_refused(pid, root)
        said = f"py-spy may not look into process {pid}" + (f": {why}" if why else "")
        return Gap(WHAT, said, what_allows(pid, root, program))
    if none:
        return Gap(WHAT, f"py-spy does not know the Python of process {pid}", "pip install --upgrade py-spy")
    error = _ERROR.search(message)
    return Gap(WHAT, error.group(1) if error else f"py-spy ended without stacks of process {pid}")


def _has_ended(pid: int, root: Path) -> bool:
    """Gone, or a zombie that its parent has not waited for."""
    stat = read_text(root / "proc" / str(pid) / "stat")
    return stat is None or stat.rpartition(")")[2].split()[:1] == ["Z"]


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
LONGEST_WINDOW_S = 60.0
GRACE_S = 10.0  # to read the symbols before, and to write the stacks after the window


class StackWindow:
    """A running window. py-spy is given a duration, so that not even our death leaves it behind."""

    def __init__(
        self, pids: Sequence[int], seconds: float, options: Sequence[str], program: str | None
    ) -> None:
        self.gaps: list[Gap] = []
        self.cpu_s = 0.0  # of those that have ended
        self.by_target: dict[
            int, list[Stack]
        ] = {}  # of those that could be sampled; [] if no thread was there
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
            running = any(self._runs(spy) for spy in self._spies.values())
            if running and time.monotonic() < self._deadline_s:
                return None
            self._finish()
        return self._stacks

    def _runs(self, spy: subprocess.Popen[bytes]) -> bool:
        """Whether it has not ended; what it used is known when it is waited for."""
        before_s = _reaped_cpu_s()
        runs = spy.poll() is None
        self.cpu_s += _reaped_cpu_s() - before_s
        return runs

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
            overdue = self._runs(spy)
            before_s = _reaped_cpu_s()
            _end(spy)
            self.cpu_s += _reaped_cpu_s() - before_s
            told = self._text(pid, "raw")
            found = parse_folded((told or "").splitlines(), pid)
            if told is not None:  # py-spy writes the file even if it saw no thread
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
    children: bool = True,
) -> StackWindow:
    """Starts py-spy on each process of ``pids`` and all their children for ``seconds``.

    Name trainers, or the launcher, and not their workers: ``children`` are followed, at 20 ms of CPU.
    ``idle`` keeps threads that sleep, so that waits for locks and disks are seen with their lines; ``gil``
    keeps only the thread that holds the interpreter's lock: it is in Python, not in an operator, which lets
    the lock go.
    """
    assert seconds > 0 and rate_hz > 0
    seconds = min(seconds, LONGEST_WINDOW_S)
    # --subprocesses follows forked loader workers too; --nonblocking accepts a torn stack in a hundred
    # instead of stopping the training at every sample.
    options = "--threads --nonblocking --full-filenames --format raw".split()
    options += ["--subprocesses"] if children else []
    options += ["--rate", str(rate_hz), "--duration", str(math.ceil(seconds)), *(["--idle"] if idle else [])]
    options += ["--gil"] if gil else []
    return StackWindow(pids, seconds, options, find_py_spy(py_spy_path))


def _reaped_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
