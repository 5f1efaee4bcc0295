"""What one trial may take (time, silence, memory), whether it takes more, and how it ended."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil

from ..launch import run_registry
from ..launch.board import Board
from ..launch.start import FOLDER_PREFIX
from ..model.diagnosis import Diagnosis
from ..model.loops import StepTable
from ..model.proof import Arm, ComparedSteps, Missed, Plan
from ..sense.files import read_number, read_pairs
from ..sense.host import Cgroups, find_cgroups, groups_with, memory_limit_bytes
from .plan import ENOUGH, MOST

WHOLE_TIMES = 3.0  # of what the baseline needed, a treatment that is no slower than that may take
WHOLE_MORE_S = 30.0  # on a machine that is busy for a moment
START_TIMES = 3.0  # torch's import from a cold cache, spawned workers; and the whole run once more, for a
START_MORE_S = 20.0  # treatment may make at the start what else is made on the way
SILENT_GAPS = 3.0  # times the longest gap that the baseline had between two batches: it may evaluate or save
SILENT_S = 20.0


@dataclass(frozen=True)
class Limits:
    """Bounds of one trial. ``steps`` are trained and then the training is ended; ``seconds`` are all that it
    may take, from its start to its end; ``first_batch_s`` from its start, ``silence_s`` between two batches
    and after the last.

    Where nothing is known of the training yet, it may load a large model, or evaluate, for minutes."""

    steps: int
    seconds: float
    first_batch_s: float = 600.0
    silence_s: float = 300.0


BUDGET_S = 300.0
WINDOWS = 10.0  # times the first run, all runs together may take at most


def budget_of(asked_s: float | None, window_s: float) -> float:
    """Seconds that all runs together may take: what was asked for, else five minutes or ten first runs."""
    return asked_s if asked_s is not None else min(BUDGET_S, WINDOWS * window_s)


def plan_of(
    diagnosis: Diagnosis, arms: Sequence[Arm], missed: Sequence[Missed], span: ComparedSteps, budget_s: float
) -> Plan:
    """The plan with its cost: from two rounds, which settle large differences, to as many as there may be."""
    run_s, others = run_seconds(diagnosis, span), len(arms) - 1
    least, most = ((times * others + times + 1) * run_s if others else 0.0 for times in (ENOUGH, MOST))
    return Plan(
        list(arms), list(missed), span, diagnosis.step_s, run_s, min(least, budget_s), min(most, budget_s)
    )


def run_seconds(diagnosis: Diagnosis, span: ComparedSteps) -> float:
    """How long a run of so many steps takes, by the run that was watched."""
    table, run_s = steps_table(diagnosis), diagnosis.profile.run.duration_s
    if table is None or not table.t:
        return run_s
    begin_s = first_batch_s(diagnosis)
    pace_s = (table.t[-1] - begin_s) / max(1, sum(table.steps))
    return begin_s + pace_s * span.end + max(0.0, run_s - table.t[-1])


def limits_of(diagnosis: Diagnosis, span: ComparedSteps, slowest_s: float = 0.0) -> Limits:
    """The limits of each trial; ``slowest_s`` is the longest run of the baseline since: where a machine has
    become busy, all that may take time may take more."""
    table = steps_table(diagnosis)
    times = table.t if table is not None else []
    longest_s = max((after - before for before, after in pairwise(times)), default=0.0)
    run_s = run_seconds(diagnosis, span)
    slower = max(1.0, slowest_s / run_s) if run_s > 0 else 1.0
    return Limits(
        span.end,
        seconds=slower * WHOLE_TIMES * run_s + WHOLE_MORE_S,
        first_batch_s=slower * (START_TIMES * first_batch_s(diagnosis) + run_s) + START_MORE_S,
        silence_s=max(SILENT_S, slower * SILENT_GAPS * longest_s),
    )


def first_batch_s(diagnosis: Diagnosis) -> float:
    """Seconds from the start to the first batch."""
    table = steps_table(diagnosis)
    return max(0.0, table.t[0] - table.wall_s[0]) if table is not None and table.t else 0.0


def steps_table(diagnosis: Diagnosis) -> StepTable | None:
    """The rows of the training loop, whether a loader feeds it or not."""
    return diagnosis.loop.table if diagnosis.loop is not None else None


SCARCE_SHARE = 0.05  # of the memory: below that the kernel throws out the page cache and soon kills (chosen)
EVERY_S = 0.5
REST = 100  # times the CPU that the last look took: counting the pages of large processes takes milliseconds
SHOWN_IN = 1 << 20


@dataclass
class MemoryWatch:
    """``peak_bytes`` of all processes together, shared pages counted once; None before the first count."""

    peak_bytes: int | None = None
    _cgroups: Cgroups = field(default_factory=find_cgroups)
    _floor_bytes: float = 0.0
    _next_s: float = 0.0
    _killed_before: int = 0

    def __post_init__(self) -> None:
        left, whole = _room(self._cgroups)
        self._floor_bytes = min(SCARCE_SHARE * whole, left / 2)  # it may have been scarce before
        self._killed_before = _kills(self._cgroups)

    def look(self, processes: Callable[[], list[psutil.Process]], now_s: float) -> str:
        """Why the trial must end now; "" while it may go on. ``processes`` finds its processes."""
        left, _ = _room(self._cgroups)
        if left < self._floor_bytes:
            return f"it left {left // SHOWN_IN} MiB of memory to other programs"
        if now_s >= self._next_s:
            began_s = time.thread_time()
            used = sum(_proportional_bytes(one.pid) for one in processes())
            self.peak_bytes = max(self.peak_bytes or 0, used) or None
            self._next_s = now_s + max(EVERY_S, REST * (time.thread_time() - began_s))
        return ""

    def was_short(self) -> bool:
        """Whether the kernel has killed for want of memory since we began."""
        return _kills(self._cgroups) > self._killed_before


def _proportional_bytes(pid: int) -> int:
    """Its pages, each divided by how many processes share it; its resident ones where that is not known."""
    found = read_pairs(Path(f"/proc/{pid}/smaps_rollup"))
    with suppress(psutil.Error):
        return found.get("Pss", 0) * 1024 or psutil.Process(pid).memory_info().rss
    return 0


def _room(cgroups: Cgroups) -> tuple[int, int]:
    """Bytes that can still be had, of how many: of the machine, or of a control group with less room, whose
    page cache is charged to it and given up when memory is wanted."""
    machine = psutil.virtual_memory()
    charged = groups_with(cgroups, "memory", "memory.current", "memory.usage_in_bytes")
    limit, used = memory_limit_bytes(cgroups), read_number(charged[0]) if charged else None
    if limit is None or used is None:
        return machine.available, machine.total
    stats = groups_with(cgroups, "memory", "memory.stat", "memory.stat")
    counts = read_pairs(stats[0]) if stats else {}
    files = (counts.get(f"total_{name}", counts.get(name, 0)) for name in ("active_file", "inactive_file"))
    return min((machine.available, machine.total), (limit - used + sum(files), limit))


def _kills(cgroups: Cgroups) -> int:
    """How often the kernel killed for want of memory: in our control group, else on the whole machine."""
    files = groups_with(cgroups, "memory", "memory.events", "memory.oom_control")
    counts = read_pairs(files[0]) if files else {}
    return counts.get("oom_kill", 0) + read_pairs(Path("/proc/vmstat")).get("oom_kill", 0)


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
            folder = next(self.place.glob(FOLDER_PREFIX + "*"), None)
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
