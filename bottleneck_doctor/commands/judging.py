"""The verdict so far, made by a process of its own that takes what nobody else wants."""

from __future__ import annotations

import os
import pickle
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ..launch.masking import mask
from ..launch.run_registry import Running, read_handover
from ..model.live import Handover

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
