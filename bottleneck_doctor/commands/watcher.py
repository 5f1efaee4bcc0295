"""What `bdoc watch` knows of a run: its pace, and its report so far."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..analyse.diagnose import ENOUGH_STEPS, is_stalled, pace, ranks_of
from ..assemble.profile import Remains, assemble
from ..findings.report import write_up
from ..launch import run_registry as registry
from ..launch.board import Board
from ..launch.masking import mask
from ..model.report import Report
from ..model.run import LiveView, Progress

REST = 20  # times what the last report cost in CPU time: at most 5 % of a core
BYTES_PER_ROW_BYTE = 7  # of memory, while rows are read (4.1 with 17 full files: 557 MiB and 8 s)
SHARE_OF_MEMORY = 0.25  # of what is available, at most
TOO_LARGE_S = 5.0  # then it is tried again


class Watcher:
    """Reads what the agents of one run post, and makes its report so far. Nothing here raises."""

    def __init__(self, run: registry.Running) -> None:
        self.run = run
        self.report: Report | None = None
        self._note = ""
        self._board = Board(run.folder, in_command=False)
        self._end = registry.hold_ending(run.folder)
        self._output_before = _stamp(run.announcement.output)
        self._snapshot = str(run.folder / registry.SNAPSHOT)
        self._snapshot_before = _stamp(self._snapshot)
        self._report_after_ns = 0
        self._before: list[Progress] = []
        self._last = LiveView(run.announcement, "starting", 0.0)

    def is_over(self) -> bool:
        """Whether the training has ended, or bdoc was killed."""
        ended = self._end is not None and registry.read_ending(self._end) is not None
        return ended or not registry.lives(self.run.announcement.supervisor)

    def look(self) -> LiveView:
        """The run as it is now; once it is over, as it was last."""
        if self.is_over():
            return self._finished()
        if self._last.steps >= ENOUGH_STEPS and time.monotonic_ns() >= self._report_after_ns:
            self._renew_report(time.monotonic_ns())  # first: the board must not count fewer steps
        now_ns, run = time.monotonic_ns(), self.run.announcement
        self._board.refresh()
        posted = self._board.progress()
        # A launcher may train one after the other: those that live count.
        progress = [one for one in posted if registry.lifetime(one.pid) is not None] or posted
        steps = progress[0].steps if progress else 0
        early = f"too early to say: {steps} of {ENOUGH_STEPS} steps"
        step_s, wait_share = pace(self._before, progress)
        if step_s is None:  # no step has ended since: the mean of all
            begun = [replace(one, steps=1, wait_ns=0, last_ns=one.first_ns) for one in progress]
            step_s, wait_share = pace(begun, progress)
        silent_s = (now_ns - max(one.last_ns for one in progress)) / 1e9 if progress else 0.0
        pids = [one.pid for one in (run.supervisor, run.training) if one is not None]
        is_stopped = any(registry.stat_of(pid)[:1] in (["T"], ["t"]) for pid in pids)
        state = "stopped" if is_stopped else "running" if progress else "starting"
        if state == "running" and is_stalled(silent_s, step_s):
            state = "stalled"
        self._before = progress
        self._last = replace(
            self._last,
            state=state,
            elapsed_s=(now_ns - run.origin_ns) / 1e9,
            steps=steps,
            trained=progress[0].trained if progress else 0,
            ranks=len(ranks_of(progress)) if progress else 0,
            silent_s=silent_s,
            step_s=step_s,
            wait_share=wait_share,
            note=early if 0 < steps < ENOUGH_STEPS else self._note,
        )
        return self._last

    def _renew_report(self, now_ns: int) -> None:
        """Ask the supervisor for a snapshot; make a report of the one that has come."""
        registry.ask_for_snapshot(self.run.folder)
        stamp = _stamp(self._snapshot)
        found = registry.read_snapshot(self.run.folder) if stamp != self._snapshot_before else None
        if found is None:
            return
        self._note, self._snapshot_before, began_s = "", stamp, time.process_time()
        if _is_too_large(self.run.folder):
            self._note = "no report: the rows of this run need more memory than is free"
            self._report_after_ns = now_ns + int(TOO_LARGE_S * 1e9)
            return
        try:
            self.report = write_up(assemble(Remains(**vars(found), folder=self.run.folder, mask=mask)))
        except Exception as error:  # the folder may have gone
            self._note = f"no report: {type(error).__name__}: {error}"
        self._report_after_ns = now_ns + int(REST * (time.process_time() - began_s) * 1e9)

    def _finished(self) -> LiveView:
        """The training is over, or its supervisor is gone."""
        run = self.run.announcement
        gone = not registry.lives(run.supervisor)  # asked first: what it wrote before is there then
        ending = registry.read_ending(self._end) if self._end is not None else None
        if ending is None:
            survivor = run.training.pid if run.training and registry.lives(run.training) else None
            return replace(self._last, state="killed", survivor=survivor)
        written = _stamp(run.output)
        profile = None
        if written is not None and written != self._output_before:
            with suppress(OSError):
                inside = Path(run.output).is_relative_to(Path.cwd())
                profile = os.path.relpath(run.output) if inside else run.output
        state = "ended" if gone or profile else "finishing"
        return replace(self._last, state=state, ending=ending, profile=profile)


def _stamp(path: str) -> tuple[int, int] | None:
    """What changes when the file is replaced; None when there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _is_too_large(folder: Path) -> bool:
    """Whether reading the rows takes memory that the training may need."""
    rows = 0
    with suppress(OSError):
        rows = sum(one.stat().st_blocks * 512 for one in folder.glob("*.rows"))
    with suppress(OSError, ValueError, StopIteration), open("/proc/meminfo", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("MemAvailable:"))
        return rows * BYTES_PER_ROW_BYTE > SHARE_OF_MEMORY * int(line.split()[1]) * 1024
    return False
