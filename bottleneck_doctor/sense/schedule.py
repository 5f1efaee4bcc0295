"""When sensors read, in bounded memory, and when disturbing instruments run: briefly, ever more rarely."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..model.instruments import InstrumentWindow, Sample, Stack
from ..model.run import Gap, Progress
from .host import affinity_cores
from .pyspy import KINDS, StackWindow, add_up, compared

MOST_CORE_SHARE = 0.005
SMOOTHING = 0.02  # weight of the newest reading: one expensive look must not starve, and so bias, the next


class AdaptivePeriod:
    """The period that the smoothed cost of a reading allows, within its bounds."""

    def __init__(self, shortest_ns: int, longest_ns: int, smoothing: float = SMOOTHING) -> None:
        self.shortest_ns = shortest_ns
        self._longest_ns = longest_ns
        self._smoothing = smoothing
        self._cost_ns = 0.0

    @property
    def period_ns(self) -> int:
        """The time to let pass between two readings."""
        affordable_ns = int(self._cost_ns / MOST_CORE_SHARE)
        return max(self.shortest_ns, min(self._longest_ns, affordable_ns))

    def spent(self, cost_ns: int) -> None:
        """Takes note of what one reading cost in CPU time of the reading thread."""
        self._cost_ns += self._smoothing * (cost_ns - self._cost_ns)


PERIOD_NS = 500_000_000
CALM_PERIOD_NS = 2_000_000_000
CALM_AFTER_NS = 120_000_000_000
LONGEST_PERIOD_NS = 30_000_000_000
MOST_SAMPLES = 2_000
SMOOTHING_OF_RARE = 0.5  # readings are rare: believe the last ones
GOLDEN = 0.6180339887498949  # the fractions of its multiples fill the unit interval evenly


class Track:
    """When to read next, and what was read. Thinning keeps every second reading and doubles the period.

    ``roaming``: readings come sooner and later by turns (0.62 and 1.62 periods), so that what repeats itself
    with the period is seen in every phase alike.
    """

    def __init__(self, now_ns: int, most: int = MOST_SAMPLES, roaming: bool = False) -> None:
        self.next_ns = now_ns
        self.pace = AdaptivePeriod(PERIOD_NS, LONGEST_PERIOD_NS, SMOOTHING_OF_RARE)
        self._calm_ns = now_ns + CALM_AFTER_NS
        self._most = most
        self._thinned_period_ns = 0
        self._readings: list[Sequence[Sample]] = []
        self._kept = 0
        self._roaming = roaming
        self._phase = 0.0

    def period_ns(self, now_ns: int) -> int:
        """The time to the next reading, the cost of reading considered."""
        wanted_ns = PERIOD_NS if now_ns < self._calm_ns else CALM_PERIOD_NS
        return max(wanted_ns, self.pace.period_ns, self._thinned_period_ns)

    def keep(self, now_ns: int, samples: Sequence[Sample], cost_ns: int) -> None:
        """Stores one reading, thins when there are too many, and sets the time of the next."""
        self.pace.spent(cost_ns)
        if samples:
            self._readings.append(samples)
            self._kept += len(samples)
        while self._kept > self._most and len(self._readings) > 1:
            self._thinned_period_ns = 2 * self.period_ns(now_ns)
            self._readings = self._readings[::2]
            self._kept = sum(map(len, self._readings))
        phase = (self._phase + GOLDEN) % 1 if self._roaming else 0.0
        self.next_ns = now_ns + int(self.period_ns(now_ns) * (1 + phase - self._phase))
        self._phase = phase

    def samples(self) -> list[Sample]:
        """All that was kept, in order of time."""
        return [sample for reading in self._readings for sample in reading]


PROFILE_STEPS = 20  # before a step is profiled, and
PROFILE_AFTER_S = 3.0  # so long after the first batch: lazy initialisation is no training
PROFILER_S = 10.0  # a window not opened by then is given up: steps are very slow
STACKS_AFTER_S = 0.7  # after the first batch: a run of two seconds has stacks, too
STACKS_S = 1
STACKS_HZ = 100
# py-spy works for each process, and threads that spin for each other lose whole slices of time to it: a pool
# of ten processes on two cores took 42 and 32 s at 100 Hz, 27 and 28 s at 30, 25 s without bdoc.
CROWDED_HZ = 30
CROWDED = 2  # processes of the job for each core, from which on that is so (chosen)
RARER = 2.5  # times the run's age at a window's end, until the next: each costs 0.1 s of CPU


@dataclass
class Windows:
    """The instruments of one run. ``look`` is called now and then and never blocks."""

    profiler: bool
    py_spy: bool
    ask_for_profile: Callable[[int], None]
    stacks: list[Stack] = field(default_factory=list)
    windows: list[InstrumentWindow] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    cpu_s: float = 0.0  # that py-spy has used
    _asked_ns: int = 0
    _looks: list[StackWindow] = field(default_factory=list)  # one of each of KINDS
    _begun_ns: int = 0
    _first_ns: int = 0
    _next_s: float = STACKS_AFTER_S

    def look(self, progress: list[Progress], now_ns: int, origin_ns: int, processes: int = 1) -> None:
        """Open the next window when it is due, close the one that is over. The job has so many processes."""
        if self._looks:
            if all(look.is_over() for look in self._looks):
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
            rate_hz = STACKS_HZ if processes <= CROWDED * affinity_cores() else CROWDED_HZ
            children = processes > len(pids)
            self._looks = [StackWindow(pids, STACKS_S, rate_hz, kind, children) for kind in KINDS.values()]

    def disturbs(self, progress: list[Progress]) -> bool:
        """Whether an instrument is at work right now."""
        return bool(self._looks) or any(one.profiled for one in progress)

    def over(self, progress: list[Progress], now_ns: int) -> bool:
        """Whether each requested instrument has had its window, or will never have one."""
        profiled = not self.profiler or (bool(self._asked_ns) and self._profiled(progress, now_ns))
        return profiled and (not self.py_spy or bool(self.windows)) and not self._looks

    def _profiled(self, progress: list[Progress], now_ns: int) -> bool:
        """Whether torch.profiler is done, in every process, or will never be."""
        return not any(one.profiled for one in progress) and (
            progress[0].windows > 0 or now_ns - self._asked_ns > PROFILER_S * 1e9
        )

    def _file(self, now_ns: int, origin_ns: int) -> None:
        every, awake, holding = (look.by_target for look in self._looks)
        self.cpu_s += sum(look.cpu_s for look in self._looks)
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
