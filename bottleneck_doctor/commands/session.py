"""One run from start to end: what watches during the training, and what is left when it is over."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..launch.board import Board, Limit
from ..launch.masking import mask
from ..launch.supervise import Ended
from .options import (
    FORMAT,
    MAX_SECONDS,
    MAX_STEPS,
    NO_PROFILER,
    NO_PY_SPY,
    OUTPUT,
    QUIET,
    TRIAL,
    UNTIL_STEADY,
)

if TYPE_CHECKING:
    from ..assemble.profile import Remains
    from ..launch.board import Enough
    from ..launch.run_registry import SnapshotWriter
    from ..model.run import Gap, Machine, Snapshot
    from .run_options import Options


LOOK_EVERY_NS = 250_000_000
WORDS_AT_MOST = 256  # of the command line; a shell can expand one star to a hundred thousand names
LETTERS_AT_MOST = 1024


@dataclass
class Session:
    """The supervisor's side of a run. ``tick`` is its whole life; what it imports, it imports then, while
    the training imports torch."""

    options: Options
    folder: Path | None
    started_at: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))
    origin_ns: int = field(default_factory=time.monotonic_ns)
    board: Board | None = None
    limit: Limit | None = None
    enough: Enough | None = None
    sensors: Any = None
    windows: Any = None
    gaps: list[Gap] = field(default_factory=list)
    cwd: str = field(default_factory=lambda: _here())
    command: Sequence[str] = ()
    script: str | None = None
    snapshots: SnapshotWriter | None = None
    described: tuple[Machine, list[Gap]] | None = None
    _opening: Iterator[None] | None = None
    _next_look_ns: int = 0
    _cpu_before_ns: int | None = None

    def prepare(self) -> None:
        """Before the training starts: the board, and the limit known beforehand."""
        if self.folder is not None:
            self.board = Board(self.folder)
            self.limit = Limit(self.board, self.options[MAX_STEPS], self.options[MAX_SECONDS])
            self.limit.arm()
            if self.options[UNTIL_STEADY]:
                from ..launch.board import Enough

                self.enough = Enough()

    def tick(self, child: int) -> float:
        """Take what is due; seconds until the next time. ``child`` is the training's pid."""
        if self._cpu_before_ns is None:
            return self._open(child)
        now = time.monotonic_ns()
        if now >= self._next_look_ns:
            self._next_look_ns = now + LOOK_EVERY_NS
            self._look(child, now)
        pause: float = self.sensors.tick(now) if self.sensors is not None else 1.0
        return min(pause, max(0.005, (self._next_look_ns - time.monotonic_ns()) / 1e9))

    def _open(self, child: int) -> float:
        """One piece of the start a tick, so that signals need not wait for all of it. What cannot be had is a
        gap: without sensors the limits still hold and the agents still write."""
        if self._opening is None:
            self._opening = self._pieces(child)
        try:
            next(self._opening)
        except StopIteration:
            self._cpu_before_ns = time.process_time_ns()
        except Exception as error:
            from ..model.run import Gap

            self.gaps.append(Gap("watching", f"it began incompletely: {type(error).__name__}: {error}"))
            self._cpu_before_ns = time.process_time_ns()
        return 0.0

    def _pieces(self, child: int) -> Iterator[None]:
        """First the sensors; then what the end of the run needs, while the training itself is importing."""
        from ..sense.sensors import Sensors

        yield
        board = self.board
        threads = (board.fetching, board.training, board.feeding) if board is not None else (list, list, list)
        self.sensors = Sensors(child, *threads)
        if board is not None:
            from ..sense.schedule import Windows

            profiler, py_spy = not self.options[NO_PROFILER], not self.options[NO_PY_SPY]
            self.windows = Windows(profiler, py_spy, board.ask_for_profile)
        yield
        self._register(child)
        yield
        from ..assemble import profile  # noqa: F401

        if self.options[TRIAL] is not None and self.options[QUIET]:
            return  # there will be no report, and the training could use the core
        yield
        from ..findings.registry import families

        families()
        yield
        if not self.options[QUIET] and self.options[FORMAT] == "terminal":
            from ..render import compose, terminal  # noqa: F401

    def _register(self, child: int) -> None:
        """Let `bdoc watch` find this run, and ask it for snapshots."""
        if self.folder is None:
            return
        from ..launch.run_registry import SnapshotWriter, announce, lifetime, machine_here
        from ..model.run import Announcement

        self.snapshots = SnapshotWriter(self.folder)
        ourselves = lifetime(os.getpid())
        if ourselves is None:  # without /proc a later process with our id looks the same
            return
        announce(
            self.folder,
            Announcement(
                supervisor=ourselves,
                place=machine_here(),
                command=bounded(mask(self.command)),
                script=self.script,
                cwd=self.cwd,
                started_at=self.started_at,
                origin_ns=self.origin_ns,
                output=os.path.join(self.cwd, self.options[OUTPUT]),
                training=lifetime(child),
                max_steps=self.options[MAX_STEPS],
                max_seconds=self.options[MAX_SECONDS],
                bdoc=__version__,
            ),
        )

    def snapshot(self, duration_s: float, **ending: Any) -> Snapshot:
        """What was measured until now; ``ending`` are the fields of ``Run`` that only the end knows."""
        from ..model.run import Run, Snapshot
        from ..sense.capabilities import describe_machine

        if self.described is None:
            self.described = describe_machine()
        machine, unknown = self.described
        windows, sensors, gaps = self.windows, self.sensors, [*self.gaps]
        gaps += [*windows.gaps] if windows is not None else []
        gaps += [*sensors.gaps()] if sensors is not None else []
        return Snapshot(
            Run(
                command=bounded(mask(self.command)),
                script=self.script,
                cwd=self.cwd,
                started_at=self.started_at,
                duration_s=duration_s,
                exit_status=ending.pop("exit_status", 0),
                bdoc=__version__,
                **ending,
            ),
            machine,
            self.origin_ns,
            samples=sensors.samples if sensors is not None else [],
            stacks=windows.stacks if windows is not None else [],
            windows=windows.windows if windows is not None else [],
            gaps=[*gaps, *unknown],
            supervisor_cpu_s=self.spent_s(),
        )

    def ended(self, ended: Ended) -> None:
        """Announce to `bdoc watch` how it ended, before the folder goes; clear up after those killed."""
        try:
            from ..launch.run_registry import announce_end, leavings, sweep

            if self.folder is not None and self.snapshots is not None:
                from ..model.run import Ending

                stopped_by = self.limit.stopped() if self.limit is not None else None
                announce_end(self.folder, Ending(ended.exit_status, ended.signal, stopped_by))
            sweep(leavings())
        except Exception as error:  # a failure here must not hide the script's status
            from ..model.run import Gap

            self.gaps.append(Gap("watching", f"its end was not announced: {type(error).__name__}: {error}"))

    def _look(self, child: int, now_ns: int) -> None:
        if self.board is None or self.limit is None:
            return
        self.board.refresh()
        progress = self.board.progress()
        self.limit.look(child, progress, now_ns)
        if self.windows is not None:
            if self.enough is not None and self.limit.due is None and progress:
                self.enough.look(progress[0], self.windows.disturbs(progress))
                if self.enough.is_enough(self.windows.over(progress, now_ns)):
                    self.limit.end("until-steady", progress[0], now_ns, at=self.enough.end_at())
            over = self.limit.due is not None  # a window that runs is finished, none is begun
            processes = self.sensors.processes if self.sensors is not None else 1
            self.windows.look([] if over else progress, now_ns, self.origin_ns, processes)
        if self.snapshots is not None:
            self.snapshots.look(now_ns, lambda: self.snapshot((now_ns - self.origin_ns) / 1e9))

    def spent_s(self) -> float | None:
        """CPU seconds that watching has cost us since all was open."""
        before = self._cpu_before_ns
        return (time.process_time_ns() - before) / 1e9 if before is not None else None

    def remains(self, ended: Ended, gaps: list[Gap]) -> Remains:
        """Everything that the profile is assembled from."""
        from ..assemble.profile import Remains
        from ..sense.files import age_s
        from ..sense.machine_costs import fault_s, handed_s

        self.gaps = [*gaps, *self.gaps, *self._unlimited(ended)]
        self.gaps += self.board.gaps() if self.board is not None else []
        spent_s = self.spent_s()
        if self.windows is not None:
            self.windows.close(ended.ended_ns, self.origin_ns)
        if self.sensors is not None:
            self.sensors.close(ended.exit_status != 0)  # the last answers, and what did not answer
        took_s = (ended.ended_ns - ended.started_ns) / 1e9
        seen = self.snapshot(
            took_s,
            exit_status=ended.exit_status,
            signal=ended.signal,
            stopped_by=self.limit.stopped() if self.limit is not None else None,
            pid=ended.pid,
        )
        machine = replace(seen.machine, fault_s=fault_s(), handed_s=handed_s())
        seen = replace(seen, machine=machine, origin_ns=ended.started_ns, supervisor_cpu_s=spent_s)
        trial = self.options[TRIAL]
        return Remains(
            **vars(seen),
            folder=self.folder,
            stacks_cpu_s=self.windows.cpu_s if self.windows is not None else 0.0,
            before_s=max(0.0, age_s() - (time.monotonic_ns() - ended.started_ns) / 1e9),
            mask=mask,
            order=trial.order if trial is not None else None,
        )

    def _unlimited(self, ended: Ended) -> list[Gap]:
        """Why a limit that was asked for ended nothing, where that was not for want of steps or time."""
        from ..model.run import Gap

        steps, seconds = self.options[MAX_STEPS], self.options[MAX_SECONDS]
        if self.board is None and (steps or seconds):
            return [Gap("limits", "there is no run folder through which to end the training")]
        late = seconds and (ended.ended_ns - ended.started_ns) / 1e9 > seconds
        if late and self.board is not None and not self.board.progress():
            return [Gap("--max-seconds", "it counts from the first batch, and none was seen")]
        if self.limit is not None and self.limit.refused and self.limit.due is None:
            why = "ranks that other runs watch would not end at the same step"
            return [Gap("--max-seconds", why, "--max-steps ends all ranks at the same one")]
        return []


def bounded(argv: list[str]) -> list[str]:
    """The command line as it is kept, so that no profile grows with it."""
    words = [word if len(word) <= LETTERS_AT_MOST else word[:LETTERS_AT_MOST] + "…" for word in argv]
    more = len(words) - WORDS_AT_MOST
    return words if more <= 0 else [*words[:WORDS_AT_MOST], f"… {more} more"]


def _here() -> str:
    """The working directory, or "" where it has been removed under us."""
    try:
        return os.getcwd()
    except OSError:
        return ""
