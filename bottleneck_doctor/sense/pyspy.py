"""Finds py-spy, reads the stacks it writes, and explains why it could not look."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ..model.profile import Gap, Stack
from .ptrace import what_allows, why_refused, yama_scope
from .reading import read_text

WHAT = "python stacks (py-spy)"
MOST_PATHS = 400
INSTALL = "pip install py-spy"
REPAIR = "pip install --force-reinstall py-spy"  # a wheel for another machine, or a file that was damaged

_PROCESS = re.compile(r'process (\d+):"')
_THREAD = re.compile(r"(?:^|;)thread \(([^)]*)\)(?:: ([^;]*))?")
_REFUSED = re.compile(r"permission denied|not permitted|EPERM|EACCES", re.IGNORECASE)
_ERROR = re.compile(r"^Error: (.+)$", re.MULTILINE)


def find_py_spy(given: str | None = None) -> str | None:
    """The executable: as given, else beside our interpreter, else on the PATH."""
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

    Where a further look failed the stacks stay without it; where it saw nobody, all slept or were in C.
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
    """Why py-spy saw nothing of ``pid``, from what it said and what /proc says; and what would allow it."""
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
