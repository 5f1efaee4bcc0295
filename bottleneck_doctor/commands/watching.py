"""Follows one run: a look each second at what its agents post and its supervisor hands over."""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from ..launch import run_registry
from ..launch.board import Board
from ..launch.run_registry import HANDED_OVER, Running, lives, read_handover, show_interest
from ..model.live import Ending, Handover, LiveView, PacePoint, Progress, Surroundings
from .judging import Judge

if TYPE_CHECKING:
    from ..model.report import Report

NOW_NS = 10_000_000_000  # what "now" means: long enough for a number that can be read
LOOKS_AT_MOST = 300  # of history: five minutes
OVER = ("ended", "killed")


class Follower:
    """What one watcher knows of one run. Nothing here raises, and nothing writes but the wish to be told."""

    def __init__(self, run: Running) -> None:
        self.run = run
        self.judge = Judge(run)
        self._board = Board(run.folder, in_command=False)
        self._end = run_registry.hold_ending(run.folder)
        self._output_before = _stamp(run.announcement.output)
        self._looks: deque[tuple[int, list[Progress]]] = deque()
        self._history: deque[PacePoint] = deque(maxlen=LOOKS_AT_MOST)
        self._handover: Handover | None = None
        self._handed_over: tuple[int, int] | None = None
        self._around = Surroundings()
        self._last: LiveView | None = None

    @property
    def report(self) -> Report | None:
        """The newest verdict."""
        return self.judge.report

    @property
    def informed(self) -> bool:
        """Whether all that a single look can show is there."""
        early = self._last is not None and self._last.steps < self._last.enough_steps
        judged = early or self.judge.report is not None or bool(self.judge.problem)
        return self._handover is not None and judged

    def look(self) -> LiveView:
        """The run as it is now; once it is over, as it was last."""
        from ..analyse.live import ENOUGH_STEPS, is_stalled, ranks_of

        now_ns = time.monotonic_ns()
        ending = run_registry.read_ending(self._end) if self._end is not None else None
        if self._last is not None and (ending or not lives(self.run.announcement.supervisor)):
            return self._finish(self._last, ending)
        show_interest(self.run.folder)
        self._take_handover()
        progress = self._progress(now_ns)
        front = progress[0] if progress else None
        now = self._pace(now_ns, progress)
        if self._handover is not None and front is not None and front.steps >= ENOUGH_STEPS:
            self.judge.look(now_ns)
        silent_s = (now_ns - max(one.last_ns for one in progress)) / 1e9 if progress else 0.0
        state = "starting" if front is None else "stalled" if is_stalled(silent_s, now.step_s) else "running"
        self._last = LiveView(
            self.run.announcement,
            "stopped" if self._is_stopped() else state,
            elapsed_s=(now_ns - self.run.announcement.origin_ns) / 1e9,
            steps=front.steps if front else 0,
            trained=front.trained if front else 0,
            ranks=len(ranks_of(progress)) if front else 0,
            silent_s=silent_s,
            now=now,
            history=list(self._history),
            around=self._around,
            enough_steps=ENOUGH_STEPS,
            judging=self.judge.is_asked,
            unjudged=self.judge.problem,
        )
        return self._last

    def close(self) -> None:
        """Leave no process and no open file."""
        self.judge.close()
        if self._end is not None:
            os.close(self._end)

    def _finish(self, last: LiveView, ending: Ending | None) -> LiveView:
        """The training is over, or its supervisor is gone."""
        from dataclasses import replace

        said = self.run.announcement
        gone = not lives(said.supervisor)
        if ending is None and self._end is not None:  # it may have been said while we waited for a core
            ending = run_registry.read_ending(self._end)
        if ending is None:
            survivor = said.training.pid if said.training and lives(said.training) else None
            self._last = replace(last, state="killed", survivor=survivor)
            return self._last
        written = _stamp(said.output)
        there = written is not None and written != self._output_before
        state = "ended" if gone or there else "finishing"
        self._last = replace(last, state=state, ending=ending, profile=_shown(said.output) if there else None)
        return self._last

    def _progress(self, now_ns: int) -> list[Progress]:
        """Of the processes that live: a launcher may train one after the other."""
        self._board.refresh()
        progress = self._board.progress()
        living = [one for one in progress if run_registry.lifetime(one.pid) is not None]
        return living or progress

    def _pace(self, now_ns: int, progress: list[Progress]) -> PacePoint:
        """Of the last seconds; of the whole run where a step takes longer than these."""
        from ..analyse.live import beginning, pace

        if self._looks:
            self._history.append(pace(self._looks[-1][1], progress))
        self._looks.append((now_ns, progress))
        while len(self._looks) > 2 and self._looks[1][0] <= now_ns - NOW_NS:
            self._looks.popleft()
        recently = pace(self._looks[0][1], progress)
        if recently.step_s is not None or not progress:
            return recently
        return pace([beginning(one) for one in progress], progress)

    def _take_handover(self) -> None:
        from ..analyse.live import recent, surroundings
        from ..assemble.samples import read_series

        stamp = _stamp(str(self.run.folder / HANDED_OVER))
        if stamp is None or stamp == self._handed_over:
            return
        found = read_handover(self.run.folder)
        if found is None:
            return
        self._handed_over = stamp
        self._handover = found
        series = read_series(recent(found.samples), self.run.announcement.origin_ns)
        self._around = surroundings(series, found.machine)

    def _is_stopped(self) -> bool:
        said = self.run.announcement
        pids = [one.pid for one in (said.supervisor, said.training) if one is not None]
        return any(run_registry.stat_of(pid)[:1] in (["T"], ["t"]) for pid in pids)


def _stamp(path: str) -> tuple[int, int] | None:
    """What changes when the file is replaced; None when there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_ino, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _shown(path: str) -> str:
    """As short as it can be typed where the watcher stands."""
    try:
        inside = Path(path).relative_to(Path.cwd())
    except (OSError, ValueError):
        return path
    return str(inside)
