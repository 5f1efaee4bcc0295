"""Follow a running job from another terminal.

\b
bdoc watch            the run that goes on
bdoc watch 4242       by the pid of bdoc, or of any process below it
bdoc watch train.py   by a part of its command line, or by its run folder

Shown are the pace of the last seconds and the report so far: what `bdoc report` would say if the run ended
now. The diagnosis runs in this process, at low CPU priority.

Ctrl-C leaves and never touches the job. Exit status: 0 when the run has ended, however it did, 2 when there
is nothing to watch or several runs to choose from, 130 after Ctrl-C.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..model.errors import UsageError
from .options import positive
from .output import complain, say, screen

if TYPE_CHECKING:
    from ..launch.run_registry import Running
    from ..model.report import Report
    from ..model.run import Ending, LiveView, Progress

EVERY_S = 2.0  # on a terminal
LOG_EVERY_S = 5.0
ONCE_S = 20.0  # in which `--once` waits for a report
PAUSE_S = 0.25  # between two looks at whether the run has ended
OVER = ("ended", "killed")
NICE = 10  # nice 19 or the idle class took minutes where every core was busy
REST = 20  # times what the last report cost in CPU time: at most 5 % of a core
BYTES_PER_ROW_BYTE = 7  # of memory, while rows are read (4.1 with 17 full files: 557 MiB and 8 s)
SHARE_OF_MEMORY = 0.25  # of what is available, at most
NOTHING = "nothing is running: start `bdoc run train.py` in another terminal"


def main(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A pid, a run folder, or a part of the command line.",
            show_default="the only run",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a run to begin.")] = False,
    once: Annotated[bool, typer.Option("--once", help="Print one report and leave.")] = False,
    every: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds between lines.", show_default="2, for a log 5")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> int:
    """Follow a running job from another terminal."""
    if every is not None:
        positive(every, "--every")
    chosen = _choose(run, wait)
    if chosen is None:
        return 2
    _step_back()
    watcher = Watcher(chosen)
    try:
        if once:
            _show_once(watcher, as_json)
        else:
            _follow(watcher, every, as_json)
    except BrokenPipeError:  # `bdoc watch | head -1` is fine; Python would complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _choose(wanted: str | None, wait: bool) -> Running | None:
    """The run that is meant; None after a list of several."""
    from ..launch.run_registry import find_runs, matching
    from ..render.watch import listed

    while True:
        runs = find_runs()
        found = matching(runs, wanted) if wanted is not None else runs
        alive = [run for run in found if not run.orphaned]
        if len(alive) == 1:
            return alive[0]
        if alive:
            first = alive[0].announcement.supervisor.pid
            complain(f"{len(alive)} runs go on: name one, as in `bdoc watch {first}`")
            for run in alive:
                complain(listed(run.announcement, (time.monotonic_ns() - run.announcement.origin_ns) / 1e9))
            return None
        if not wait:
            raise UsageError(_nothing(wanted, runs, found))
        time.sleep(0.5)


def _nothing(wanted: str | None, runs: list[Running], found: list[Running]) -> str:
    """Why there is nothing to watch."""
    from ..render.watch import shown_command

    dead = found[-1] if found else None
    if dead is not None:
        pid, shown = dead.announcement.supervisor.pid, shown_command(dead.announcement)
        return f"nothing is running: bdoc (pid {pid}) of `{shown}` was killed, and left {dead.folder}"
    if wanted is not None and any(not run.orphaned for run in runs):
        return f"no run matches {wanted!r}: `bdoc watch` without a name lists them"
    return NOTHING


def _step_back() -> None:
    """This process yields to others, and is the first that the kernel ends when memory runs short."""
    with suppress(OSError):
        os.nice(NICE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _show_once(watcher: Watcher, as_json: bool) -> None:
    from ..render.watch import record, whole

    until = time.monotonic() + ONCE_S
    view = watcher.look()
    while not (watcher.report or view.note or view.state in OVER) and time.monotonic() < until:
        time.sleep(PAUSE_S)
        view = watcher.look()
    shown = screen(sys.stdout)
    drawn = record if as_json else whole
    say(drawn(view, watcher.report, **vars(shown)), shown.encoding)


def _follow(watcher: Watcher, every: float | None, as_json: bool) -> None:
    from ..render.watch import plain_line, record, short

    live = not as_json and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    drawn = short if live else record if as_json else plain_line
    every_s = every or (EVERY_S if live else LOG_EVERY_S)
    due = 0.0
    while True:
        if time.monotonic() >= due or watcher.is_over():
            view = watcher.look()
            if time.monotonic() >= due or view.state in OVER:
                due = time.monotonic() + every_s
                shown = screen(sys.stdout)
                text = drawn(view, watcher.report, **vars(shown))
                if live:
                    rows = shutil.get_terminal_size().lines - 1
                    text = "\x1b[H\x1b[2J" + "\n".join(text.splitlines()[:rows]) + "\n"
                sys.stdout.buffer.write(text.encode(shown.encoding, "backslashreplace"))
                sys.stdout.buffer.flush()
            if view.state in OVER:
                return
        time.sleep(max(0.0, min(PAUSE_S, due - time.monotonic())))


class Watcher:
    """Reads what the agents of one run post, and makes its report so far. Nothing here raises."""

    def __init__(self, run: Running) -> None:
        from ..launch.agent_counters import Board
        from ..launch.run_registry import SNAPSHOT, hold_ending
        from ..model.run import LiveView

        self.run = run
        self.report: Report | None = None
        self._note = ""
        self._board = Board(run.folder, in_command=False)
        self._end = hold_ending(run.folder)
        self._output_before = _stamp(run.announcement.output)
        self._snapshot = str(run.folder / SNAPSHOT)
        self._snapshot_before = _stamp(self._snapshot)
        self._report_after_ns = 0
        self._before: list[Progress] = []
        self._last = LiveView(run.announcement, "starting", 0.0)

    def is_over(self) -> bool:
        """Whether the training has ended, or bdoc was killed."""
        from ..launch.run_registry import lives

        return self._ending() is not None or not lives(self.run.announcement.supervisor)

    def look(self) -> LiveView:
        """The run as it is now; once it is over, as it was last."""
        from ..analyse.live_diagnosis import ENOUGH_STEPS, is_stalled, pace, ranks_of
        from ..launch.run_registry import lifetime

        now_ns = time.monotonic_ns()
        if self.is_over():
            return self._finished()
        self._board.refresh()
        posted = self._board.progress()
        # A launcher may train one after the other: those that live count.
        progress = [one for one in posted if lifetime(one.pid) is not None] or posted
        steps = progress[0].steps if progress else 0
        if steps >= ENOUGH_STEPS and now_ns >= self._report_after_ns:
            self._renew_report(now_ns)
        early = f"too early to say: {steps} of {ENOUGH_STEPS} steps"
        step_s, wait_share = pace(self._before, progress)
        if step_s is None:  # no step has ended since: the mean of all
            begun = [replace(one, steps=1, wait_ns=0, last_ns=one.first_ns) for one in progress]
            step_s, wait_share = pace(begun, progress)
        silent_s = (now_ns - max(one.last_ns for one in progress)) / 1e9 if progress else 0.0
        state = "stopped" if self._is_stopped() else "running" if progress else "starting"
        if state == "running" and is_stalled(silent_s, step_s):
            state = "stalled"
        self._before = progress
        self._last = replace(
            self._last,
            state=state,
            elapsed_s=(now_ns - self.run.announcement.origin_ns) / 1e9,
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
        from ..assemble.profile import Remains, assemble
        from ..findings.report import write_up
        from ..launch.masking import mask
        from ..launch.run_registry import ask_for_snapshot, read_snapshot

        ask_for_snapshot(self.run.folder)
        stamp = _stamp(self._snapshot)
        found = read_snapshot(self.run.folder) if stamp != self._snapshot_before else None
        if found is None:
            return
        self._note, self._snapshot_before, began_s = "", stamp, time.process_time()
        if _is_too_large(self.run.folder):
            self._note = "no report: the rows of this run need more memory than is free"
            self._report_after_ns = now_ns + int(LOG_EVERY_S * 1e9)
            return
        try:
            self.report = write_up(assemble(Remains(self.run.folder, **vars(found), mask=mask)))
        except Exception as error:  # the folder may have gone
            self._note = f"no report: {type(error).__name__}: {error}"
        self._report_after_ns = now_ns + int(REST * (time.process_time() - began_s) * 1e9)

    def _ending(self) -> Ending | None:
        from ..launch.run_registry import read_ending

        return read_ending(self._end) if self._end is not None else None

    def _finished(self) -> LiveView:
        """The training is over, or its supervisor is gone."""
        from ..launch.run_registry import lives

        said = self.run.announcement
        gone = not lives(said.supervisor)
        ending = self._ending()
        if ending is None:
            survivor = said.training.pid if said.training and lives(said.training) else None
            return replace(self._last, state="killed", survivor=survivor)
        written = _stamp(said.output)
        profile = None
        if written is not None and written != self._output_before:
            with suppress(OSError):
                inside = Path(said.output).is_relative_to(Path.cwd())
                profile = os.path.relpath(said.output) if inside else said.output
        return replace(
            self._last, state="ended" if gone or profile else "finishing", ending=ending, profile=profile
        )

    def _is_stopped(self) -> bool:
        from ..launch.run_registry import stat_of

        said = self.run.announcement
        pids = [one.pid for one in (said.supervisor, said.training) if one is not None]
        return any(stat_of(pid)[:1] in (["T"], ["t"]) for pid in pids)


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
