"""Runs the sensors that watch a job from outside: call ``tick`` when it asks for it, then take ``samples``.

Names are unique over all sensors, so that their values can share one table; units come last; counters are
cumulative; what could not be read is left out. By sensor:

- ``system``: host.py
- ``job``: sums over the process tree, the dead included, and ``other_ranks``, ``other_ranks_cpu_s``: ranks of
  the same launcher on this machine that are not below the watched process: process_tree.py
- ``holdings``, every few seconds: memory, open and mapped files: process_tree.py; children_main_cpu_s and
  children_main_queue_s (waiting for a core) of the main threads of the processes below the watched one, and
  children_beside_cpu_s of all others: process_tree.py
- ``gpu_static`` once and ``gpu`` per reading, the names beginning with ``gpu0_`` for ``cuda:0``: gpus.py
- ``blocked`` and ``loop``, one per process and half-second (wider in long runs): pid, and a count for each of
  ``CLASSES``; ``file``: a file that was waited for, and where it lives: wait_sampler.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..model.instruments import Sample
from ..model.run import Gap
from .gpus import GpuReader
from .host import HostSensor
from .process_tree import ChildThreads, Holdings, OtherRanks, Tree
from .schedule import Track
from .wait_sampler import Threads, WaitSampler

MOST_FAILURES = 5  # in a row, after which a sensor is left alone
NOTHING_DUE_NS = 1_000_000_000
HOLDINGS_PERIOD_NS = 2_000_000_000


@dataclass
class _Sensor:
    """A sensor: what it is called, how it is read, when next, and how often it failed in a row."""

    name: str
    read: Callable[[int], Sequence[Sample]]
    track: Track | None
    next_ns: int
    failures: int = 0


class Sensors:
    """All sensors of the job below ``root_pid``. ``fetching`` names the (pid, tid) inside a fetch right now,
    ``training`` those that run a training loop, ``feeding`` those that such a loop waits for.

    Nothing here raises: a sensor that fails becomes a gap.
    """

    def __init__(
        self,
        root_pid: int,
        fetching: Threads,
        training: Threads = tuple,
        feeding: Threads = tuple,
        root: Path = Path("/"),
    ) -> None:
        now_ns = time.monotonic_ns()
        self._gaps: list[Gap] = []
        self._tree = Tree(root_pid, root)
        self._other_ranks = OtherRanks(root_pid, root)
        self._waits = WaitSampler(fetching, training, feeding, root)
        self._host = HostSensor(root_pid, root)
        self._holdings = Holdings(root)
        self._children = ChildThreads(root_pid, root)
        self._holdings_due_ns = 0
        self._gpus = GpuReader(now_ns)
        self._sensors = [
            _Sensor("blocked", self._read_waits, None, now_ns),
            _Sensor("system", lambda t: [Sample(t, "system", self._host.read())], Track(now_ns), now_ns),
            _Sensor("job", self._read_job, Track(now_ns), now_ns),
            _Sensor("holdings", self._read_holdings, Track(now_ns), now_ns),
        ]

    @property
    def processes(self) -> int:
        """How many the job has, as last read."""
        return len(self._tree.pids)

    @property
    def samples(self) -> list[Sample]:
        """Everything kept so far."""
        samples = self._gpus.samples()
        for sensor in self._sensors:
            samples += sensor.track.samples() if sensor.track is not None else []
        return samples + self._waits.samples()

    def tick(self, now_ns: int) -> float:
        """Takes what is due and returns the seconds until the next wanted tick."""
        for sensor in self._sensors:
            if sensor.failures < MOST_FAILURES and now_ns >= sensor.next_ns:
                self._read(sensor, now_ns)
        self._gpus.look(now_ns, self._tree.pids)
        wanted = [sensor.next_ns for sensor in self._sensors if sensor.failures < MOST_FAILURES]
        if (next_ns := self._gpus.next_ns) is not None:
            wanted.append(next_ns)
        return max(0, min(wanted, default=now_ns + NOTHING_DUE_NS) - now_ns) / 1e9

    def gaps(self) -> list[Gap]:
        """What could not be sensed, each once."""
        gaps = [*self._gaps, *(self._host.gaps or []), *self._waits.gaps(), *self._gpus.gaps()]
        if self._tree.io_refused:
            why = "/proc/<pid>/io of a process cannot be read"
            gaps.append(Gap("bytes read by the job", why, "run bdoc as the user who trains"))
        return list(dict.fromkeys(gaps))

    def close(self, failed: bool = False) -> None:
        """Releases descriptors and GPUs; the samples stay. After a run that ``failed`` the machine is read
        again: the kernel may have killed it."""
        if failed:
            self._read(self._sensors[1], time.monotonic_ns())
        self._waits.close()
        self._gpus.close()

    def _read(self, sensor: _Sensor, now_ns: int) -> None:
        began_ns = time.thread_time_ns()
        samples: Sequence[Sample] = ()
        try:
            samples = sensor.read(now_ns)
            sensor.failures = 0
        except Exception as error:  # our bug or a kernel's oddity: the job must not notice either
            sensor.failures += 1
            gap = Gap(f"{sensor.name} sensor", f"{type(error).__name__}: {error}")
            self._gaps += [gap] if gap not in self._gaps else []
        if sensor.track is None:
            sensor.next_ns = self._waits.next_ns(now_ns)
        else:
            sensor.track.keep(now_ns, samples, time.thread_time_ns() - began_ns)
            sensor.next_ns = sensor.track.next_ns

    def _read_waits(self, now_ns: int) -> Sequence[Sample]:
        self._waits.read(now_ns)
        return ()  # it keeps its own

    def _read_job(self, now_ns: int) -> Sequence[Sample]:
        used = self._tree.read(now_ns)
        return [Sample(now_ns, "job", used | self._other_ranks.read(now_ns))] if used else []

    def _read_holdings(self, now_ns: int) -> Sequence[Sample]:
        if now_ns < self._holdings_due_ns:
            return []
        self._holdings_due_ns = now_ns + HOLDINGS_PERIOD_NS
        pids = self._tree.pids
        values = self._holdings.read(pids) | self._children.read(pids)
        return [Sample(now_ns, "holdings", values)] if values else []
