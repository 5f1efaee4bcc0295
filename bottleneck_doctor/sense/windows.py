"""Decides when the disturbing instruments run: after warm-up, one after the other, a few seconds in all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.profile import Gap, Stack, Window
from ..model.progress import Progress
from .pyspy import with_running
from .stacks import StackWindow, start_window

WARMUP_STEPS = 20
WARMUP_S = 3.0  # after the first batch; a short run is left undisturbed
STACKS_S = 2
STACKS_HZ = 50
PROFILER_S = 10.0  # a wish that is not being granted by then is given up: steps are very slow


@dataclass
class Windows:
    """The instruments of one run. ``look`` is called now and then and never blocks."""

    profiler: bool
    py_spy: bool
    ask_for_profile: Callable[[int], None]
    stacks: list[Stack] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    _asked_ns: int = 0
    _spying: StackWindow | None = None
    _awake: StackWindow | None = None  # the same look without threads that sleep: py-spy marks them nowhere
    _begun_ns: int = 0

    def look(self, progress: list[Progress], now_ns: int, origin_ns: int) -> None:
        """Open the next window when it is due, close the one that is over."""
        if self._spying is not None:
            self._collect(now_ns, origin_ns)
            return
        if not progress or not _warm(progress[0], now_ns):
            return
        if self.profiler and not self._asked_ns:
            self._asked_ns = now_ns
            self.ask_for_profile(1)
        elif self.py_spy and (not self.profiler or self._profiled(progress, now_ns)):
            self.py_spy = False
            self._begun_ns = now_ns
            pids = [one.pid for one in progress]
            self._spying = start_window(pids, STACKS_S, STACKS_HZ)
            self._awake = start_window(pids, STACKS_S, STACKS_HZ, idle=False)

    def disturbs(self, progress: list[Progress]) -> bool:
        """Whether an instrument is at work right now."""
        return self._spying is not None or any(one.profiled for one in progress)

    def over(self, progress: list[Progress], now_ns: int) -> bool:
        """Whether each instrument that was asked for has had its window, or will never have it."""
        profiled = not self.profiler or (bool(self._asked_ns) and self._profiled(progress, now_ns))
        return profiled and not self.py_spy and self._spying is None

    def _profiled(self, progress: list[Progress], now_ns: int) -> bool:
        """Whether torch.profiler is done, in every process, or will never be."""
        return not any(one.profiled for one in progress) and (
            progress[0].windows > 0 or _late(self._asked_ns, now_ns)
        )

    def _collect(self, now_ns: int, origin_ns: int) -> None:
        assert self._spying is not None and self._awake is not None
        found, awake = self._spying.poll(), self._awake.poll()
        if found is not None and awake is not None:
            self._file(now_ns, origin_ns)

    def _file(self, now_ns: int, origin_ns: int) -> None:
        assert self._spying is not None and self._awake is not None
        self.stacks += with_running(self._spying.by_target, self._awake.by_target)
        self.gaps += self._spying.gaps
        self.windows.append(Window("py-spy", (self._begun_ns - origin_ns) / 1e9, (now_ns - origin_ns) / 1e9))
        self._spying = self._awake = None

    def close(self, now_ns: int, origin_ns: int) -> None:
        """The training has ended: take what there is."""
        if self._spying is not None and self._awake is not None:
            self._spying.close()
            self._awake.close()
            self._file(now_ns, origin_ns)


def _warm(front: Progress, now_ns: int) -> bool:
    return front.steps >= WARMUP_STEPS and bool(front.first_ns) and now_ns - front.first_ns >= WARMUP_S * 1e9


def _late(asked_ns: int, now_ns: int) -> bool:
    return now_ns - asked_ns > PROFILER_S * 1e9
