"""Follows one run: a look each second at what its agents post and its supervisor hands over."""

from __future__ import annotations

import os
import pickle
import signal
import stat
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..launch import run_registry
from ..launch.agent_counters import Board
from ..launch.masking import mask
from ..launch.run_registry import HANDED_OVER, Running, lives, read_handover, show_interest
from ..model.run import Ending, Handover, LiveView, PacePoint, Progress, Surroundings

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from ..assemble.profile import Remains
    from ..model.report import Report

EVERY_NS = 5_000_000_000
# The first verdict is waited for by a person: half a second of CPU, once, politely. Nice 19 or the idle class
# made that person wait for minutes where every core was busy.
NICE, NICEST = 10, 19
AGAIN_NS = 30_000_000_000  # after it was killed, by the kernel for memory perhaps
REST = 20  # times what the last verdict cost in CPU time
BYTES_PER_ROW_BYTE = 7  # of memory, while rows are read (4.1 with 17 full files: 557 MiB and 8 s)
SHARE_OF_MEMORY = 0.25  # of what is available, at most


class Judge:
    """Asks for a verdict now and then; ``report`` is the newest one. Nothing here waits, nothing raises."""

    def __init__(self, run: Running) -> None:
        self._run = run
        self.report: Report | None = None
        self.problem = ""
        self.cost_s = 0.0  # of the newest verdict, in CPU time
        self._child = 0
        self._line: Connection | None = None
        self._asked = False
        self._next_ns = 0

    @property
    def is_asked(self) -> bool:
        """Whether a verdict is being made."""
        return self._asked

    def look(self, now_ns: int) -> None:
        """Take a verdict that is finished; ask for the next one when it is due."""
        try:
            if self._asked:
                self._take(now_ns)
            elif now_ns >= self._next_ns:
                self._next_ns = now_ns + EVERY_NS
                self.problem = _too_large(self._run.folder)
                if not self.problem:
                    self._ask(now_ns)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            self.problem = f"it was ended from outside ({type(error).__name__})"
            self._next_ns = now_ns + AGAIN_NS
            self.close()

    def close(self) -> None:
        """Let the one that is being made go."""
        if self._line is not None:
            self._line.close()
        if self._child:
            with suppress(OSError):
                os.kill(self._child, signal.SIGKILL)
                os.waitpid(self._child, 0)
        self._child, self._line, self._asked = 0, None, False

    def _ask(self, now_ns: int) -> None:
        if self._line is None:
            self._begin()
        assert self._line is not None
        self._line.send(now_ns)  # a few bytes: whoever reads them may not run for a while
        self._asked = True

    def _begin(self) -> None:
        from multiprocessing.connection import Pipe

        ours, theirs = Pipe()
        self._child = os.fork()
        if self._child == 0:
            ours.close()
            _work(theirs, self._run)
        theirs.close()
        self._line = ours
        step_back(NICEST)  # for the rest of us there is no hurry

    def _take(self, now_ns: int) -> None:
        assert self._line is not None
        if not self._line.poll():
            return
        self._asked = False
        found, self.cost_s = self._line.recv()  # from our own child, over a line that nobody else has
        self.problem = found if isinstance(found, str) else ""
        self.report = self.report if isinstance(found, str) else found
        self._next_ns = now_ns + max(EVERY_NS, int(REST * self.cost_s * 1e9))


def step_back(by: int = NICE) -> None:
    """This process gives way to others."""
    with suppress(OSError):
        os.nice(by)


def _work(line: Connection, run: Running) -> None:
    """In the child, which never returns. The first verdict is made politely, those after it in idle time."""
    told = False
    try:
        _stand_alone()
        while True:
            now_ns = line.recv()
            began_s = time.process_time()
            found = _judged(run, now_ns)
            line.send((found, time.process_time() - began_s))
            if not told and not isinstance(found, str) and found.verdict.bound != "inconclusive":
                told = True
                _be_idle()
    except BaseException:  # nobody is left to judge for
        pass
    finally:
        os._exit(0)


def _judged(run: Running, now_ns: int) -> Report | str:
    """What the report would say, if the run ended now; or why that cannot be said."""
    from ..assemble.profile import assemble
    from ..prescribe import write_up

    try:
        seen = read_handover(run.folder)
        return "" if seen is None else write_up(assemble(_remains(run, seen, now_ns)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _remains(run: Running, seen: Handover, now_ns: int) -> Remains:
    """All that the report would be made of."""
    from ..assemble.profile import Remains
    from ..model.run import Run

    said = run.announcement
    return Remains(
        folder=run.folder,
        run=Run(
            command=said.command,
            script=said.script,
            cwd=said.cwd,
            started_at=said.started_at,
            duration_s=(now_ns - said.origin_ns) / 1e9,
            exit_status=0,
            bdoc=said.bdoc,
        ),
        machine=seen.machine,
        origin_ns=said.origin_ns,
        samples=seen.samples,
        stacks=seen.stacks,
        windows=seen.windows,
        gaps=seen.gaps,
        supervisor_cpu_s=seen.supervisor_cpu_s,
        mask=mask,
    )


def _stand_alone() -> None:
    """A session of its own, and the first to go when memory ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # whoever reads from our parent must not wait for us
        os.dup2(nowhere, stream)
    _set("oom_score_adj", 1000)
    _set("autogroup", NICE)  # where sessions are groups for the scheduler, niceness counts within one only


def _be_idle() -> None:
    _set("autogroup", NICEST)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _set(name: str, value: int) -> None:
    with suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as file:
        file.write(str(value))


def _too_large(folder: Path) -> str:
    """Why the rows are not read now: that takes memory which the training may need."""
    rows = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".rows"):
                with suppress(OSError):
                    rows += entry.stat().st_blocks * 512
    available = _available_bytes()
    if available is None or rows * BYTES_PER_ROW_BYTE <= SHARE_OF_MEMORY * available:
        return ""
    return "judging so long a run takes more memory than is free; `bdoc run` does it at the end"


def _available_bytes() -> int | None:
    with suppress(OSError, ValueError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


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
        from ..analyse.live_diagnosis import ENOUGH_STEPS, is_stalled, ranks_of

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
        from ..analyse.live_diagnosis import beginning, pace

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
        from ..analyse.live_diagnosis import recent, surroundings
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
