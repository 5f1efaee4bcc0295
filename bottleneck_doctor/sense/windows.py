"""Decides when the disturbing instruments run: one at a time, briefly, ever more rarely."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.instruments import InstrumentWindow, Stack
from ..model.live import Progress
from ..model.run import Gap
from .capabilities import affinity_cores
from .pyspy import StackWindow, add_up, compared, start_window

PROFILE_STEPS = 20  # before a step is profiled, and
PROFILE_AFTER_S = 3.0  # so long after the first batch: lazy initialisation is no training
PROFILER_S = 10.0  # a wish that is not being granted by then is given up: steps are very slow
STACKS_AFTER_S = 0.7  # after the first batch: a run of two seconds has stacks, too
STACKS_S = 1
STACKS_HZ, CROWDED_HZ = 100, 30
CROWDED = 2  # processes of the job for each core: with more, they are looked at less often (ours)
RARER = 1.8  # times the run's age at a window's end, until the next: epochs and evaluation get their share


@dataclass
class Windows:
    """The instruments of one run. ``look`` is called now and then and never blocks."""

    profiler: bool
    py_spy: bool
    ask_for_profile: Callable[[int], None]
    stacks: list[Stack] = field(default_factory=list)
    windows: list[InstrumentWindow] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    _asked_ns: int = 0
    _looks: list[StackWindow] = field(default_factory=list)  # at all threads, those awake, those with the GIL
    _begun_ns: int = 0
    _first_ns: int = 0
    _next_s: float = STACKS_AFTER_S

    def look(self, progress: list[Progress], now_ns: int, origin_ns: int, processes: int = 1) -> None:
        """Open the next window when it is due, close the one that is over. The job has so many processes."""
        if self._looks:
            if all(look.poll() is not None for look in self._looks):
                self._file(now_ns, origin_ns)
                self._next_s = RARER * (now_ns - self._first_ns) / 1e9
            return
        if not progress or not progress[0].first_ns:
            return
        front, age_s = progress[0], (now_ns - progress[0].first_ns) / 1e9
        if self.profiler and not self._asked_ns and age_s >= PROFILE_AFTER_S and front.steps >= PROFILE_STEPS:
            self._asked_ns = now_ns
            self.ask_for_profile(1)
        profiling = self.profiler and bool(self._asked_ns) and not self._profiled(progress, now_ns)
        if self.py_spy and age_s >= self._next_s and not profiling:
            self._begun_ns, self._first_ns = now_ns, front.first_ns
            pids = [one.pid for one in progress]
            kinds = ((True, False), (False, False), (False, True))
            rate_hz = stacks_hz(processes, affinity_cores() or os.cpu_count() or 1)
            self._looks = [start_window(pids, STACKS_S, rate_hz, idle=idle, gil=gil) for idle, gil in kinds]

    def disturbs(self, progress: list[Progress]) -> bool:
        """Whether an instrument is at work right now."""
        return bool(self._looks) or any(one.profiled for one in progress)

    def over(self, progress: list[Progress], now_ns: int) -> bool:
        """Whether each instrument that was asked for has had a window, or will never have one."""
        profiled = not self.profiler or (bool(self._asked_ns) and self._profiled(progress, now_ns))
        return profiled and (not self.py_spy or bool(self.windows)) and not self._looks

    def _profiled(self, progress: list[Progress], now_ns: int) -> bool:
        """Whether torch.profiler is done, in every process, or will never be."""
        return not any(one.profiled for one in progress) and (
            progress[0].windows > 0 or now_ns - self._asked_ns > PROFILER_S * 1e9
        )

    def _file(self, now_ns: int, origin_ns: int) -> None:
        every, awake, holding = (look.by_target for look in self._looks)
        self.stacks = add_up(self.stacks, compared(every, awake, holding))
        self.gaps += [gap for gap in self._looks[0].gaps if gap not in self.gaps]
        self.windows.append(
            InstrumentWindow("py-spy", (self._begun_ns - origin_ns) / 1e9, (now_ns - origin_ns) / 1e9)
        )
        self._looks = []

    def close(self, now_ns: int, origin_ns: int) -> None:
        """The training has ended: take what there is."""
        if self._looks:
            known, gaps = bool(self.stacks), list(self.gaps)
            for look in self._looks:
                look.close()
            self._file(now_ns, origin_ns)
            if known:  # a later window that the end cut short is no gap
                self.gaps = gaps


def stacks_hz(processes: int, cores: int) -> int:
    """How often to look: py-spy works for each process, and threads that spin for each other lose whole
    slices of time to it. A pool with ten of them on two cores took 42 and 32 s at 100 Hz, 27 and 28 s at 30,
    25 s without bdoc (a training by others that is not in the repository)."""
    return STACKS_HZ if processes <= CROWDED * cores else CROWDED_HZ
