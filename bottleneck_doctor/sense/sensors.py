"""Runs the sensors that watch a job from outside: call ``tick`` when it asks for it, then take ``samples``.

Names are unique over all sensors, so that their values can share one table; units come last; counters are
cumulative; what could not be read is left out. By sensor:

- ``system``: cpu_busy_s, cpu_idle_s, cpu_iowait_s, cpu_steal_s, busiest_core_share, memory_available_bytes,
  cgroup_memory_bytes, memory_limit_hits, swap_in_bytes, swap_out_bytes, refault_bytes, shm_free_bytes,
  pressure_{cpu,io,memory}_{some,full}_s, pressure_scope (``cgroup`` or ``machine``), quota_periods,
  throttled_periods, throttled_s, disks, disk_reads, disk_read_bytes, disk_read_s, disk_writes,
  disk_write_bytes, disk_busy_s, disk_queue_s, network_received_bytes, nfs_operations, nfs_received_bytes,
  nfs_queue_s, nfs_round_trip_s, nfs_s
- ``job``: sums over the process tree, the dead included: job_cpu_s, job_user_s, job_system_s, job_rss_bytes,
  job_processes, job_threads, job_major_faults, job_block_delay_s, and where allowed job_rchar_bytes,
  job_reads, job_read_bytes, job_write_bytes; other_ranks, other_ranks_cpu_s: ranks of the same launcher on
  this machine that are not below the watched process, the dead included
- ``holdings``, every few seconds: job_private_bytes, job_swapped_bytes, job_measured_processes, descriptors
  and descriptor_limit of the process nearest to its limit; once, mapped_data_bytes, the largest amount of
  data files that one process has mapped; of the processes below the watched one children_main_cpu_s and
  children_main_queue_s (waiting for a core) of their main threads, and children_beside_cpu_s of all others
- ``gpu_static`` once and ``gpu`` per reading, the names beginning with ``gpu0_`` for ``cuda:0``: see gpus.py
- ``blocked``, one per process and half-second (wider in long runs): pid, and a count for each of
  ``CLASSES``; ``channel``: name, class, count; ``file``: pid, path, count, mount, fstype, device,
  rotational (1, 0, or -1 when unknown), bytes (its size; 0 when unknown or far away)
- ``sensors``, one at the end: sensors_cpu_s, the CPU time that all of this cost
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..model.instruments import Sample
from ..model.run import Gap
from .blocked import BlockedSampler, Threads
from .child_threads import ChildThreads
from .gpus import GpuReader
from .host import HostSensor
from .process_tree import Holdings, OtherRanks, Tree
from .schedule import Track

MOST_FAILURES = 5  # in a row, after which a sensor is left alone
NOTHING_DUE_NS = 1_000_000_000
# Of what the process tree used (``Usage``), as ``job_user_s`` and so on.
JOB = ("user_s", "system_s", "rss_bytes", "processes", "threads", "major_faults", "block_delay_s")
JOB_IO = ("rchar_bytes", "reads", "read_bytes", "write_bytes")


@dataclass
class _Periodic:
    """A sensor read by the clock: what it is called, how it is read, what came of it."""

    name: str
    read: Callable[[int], Sequence[Sample]]
    track: Track
    failures: int = 0


class Sensors:
    """All sensors of one job. Nothing here raises: a sensor that fails becomes a gap."""

    def __init__(
        self,
        root_pid: int,
        fetching: Threads,
        root: Path = Path("/"),
        nvml: Any = None,
        environment: Mapping[str, str] | None = None,
        training: Threads = tuple,
        feeding: Threads = tuple,
    ) -> None:
        now_ns = time.monotonic_ns()
        self._gaps: list[Gap] = []
        self._cpu_ns = 0
        self._end_ns = now_ns
        self._tree = Tree(root_pid, root)
        self._other_ranks = OtherRanks(root_pid, root)
        self._blocked = BlockedSampler(fetching, root, training=training, feeding=feeding)
        self._blocked_next_ns = now_ns
        self._blocked_failures = 0
        self._host = HostSensor(root_pid, root)
        self._holdings = Holdings(root)
        self._children = ChildThreads(root_pid, root)
        self._gpus = GpuReader(now_ns, nvml, environment)
        reads: dict[str, Callable[[int], Sequence[Sample]]] = {
            "system": self._read_host,
            "job": self._read_job,
            "holdings": self._read_holdings,
        }
        self._periodic = [_Periodic(name, read, Track(now_ns)) for name, read in reads.items()]

    @property
    def processes(self) -> int:
        """How many the job has, as last read."""
        return len(self._tree.pids)

    @property
    def samples(self) -> list[Sample]:
        """Everything kept so far."""
        samples = self._gpus.samples()
        for sensor in self._periodic:
            samples += sensor.track.samples()
        samples += self._blocked.samples()
        cpu_s = (self._cpu_ns + self._gpus.cpu_ns) / 1e9
        return [*samples, Sample(self._end_ns, "sensors", {"sensors_cpu_s": cpu_s})]

    def tick(self, now_ns: int) -> float:
        """Takes what is due and returns the seconds until the next wanted tick."""
        began_ns = time.thread_time_ns()
        if self._blocked_failures < MOST_FAILURES and now_ns >= self._blocked_next_ns:
            self._tick_blocked(now_ns)
        for sensor in self._periodic:
            if sensor.failures < MOST_FAILURES and sensor.track.is_due(now_ns):
                self._tick_periodic(sensor, now_ns)
        self._gpus.look(now_ns, self._tree.pids)
        self._cpu_ns += time.thread_time_ns() - began_ns
        self._end_ns = now_ns
        wanted = [sensor.track.next_ns for sensor in self._periodic if sensor.failures < MOST_FAILURES]
        if self._blocked_failures < MOST_FAILURES:
            wanted.append(self._blocked_next_ns)
        if (next_ns := self._gpus.next_ns) is not None:
            wanted.append(next_ns)
        return max(0, min(wanted, default=now_ns + NOTHING_DUE_NS) - now_ns) / 1e9

    def gaps(self) -> list[Gap]:
        """What could not be sensed, each once."""
        gaps = [*self._gaps, *(self._host.gaps or []), *self._blocked.gaps(), *self._gpus.gaps()]
        if self._tree.io_refused:
            why = "/proc/<pid>/io of a process cannot be read"
            gaps.append(Gap("bytes read by the job", why, "run bdoc as the user who trains"))
        return list(dict.fromkeys(gaps))

    def close(self) -> None:
        """Releases descriptors and NVML; the samples stay."""
        self._blocked.close()
        self._gpus.close()

    def _tick_blocked(self, now_ns: int) -> None:
        try:
            self._blocked.read(now_ns)
            self._blocked_failures = 0
        except Exception as error:  # our bug or a kernel's oddity: the job must not notice either
            self._blocked_failures += 1
            self._note("blocked", error)
        self._blocked_next_ns = self._blocked.next_ns(now_ns)

    def _tick_periodic(self, sensor: _Periodic, now_ns: int) -> None:
        began_ns = time.thread_time_ns()
        samples: Sequence[Sample] = ()
        try:
            samples = sensor.read(now_ns)
            sensor.failures = 0
        except Exception as error:  # as above
            sensor.failures += 1
            self._note(sensor.name, error)
        sensor.track.keep(now_ns, samples, time.thread_time_ns() - began_ns)

    def _note(self, name: str, error: Exception) -> None:
        gap = Gap(f"{name} sensor", f"{type(error).__name__}: {error}")
        if gap not in self._gaps:
            self._gaps.append(gap)

    def _read_host(self, now_ns: int) -> Sequence[Sample]:
        return [Sample(now_ns, "system", self._host.read())]

    def _read_job(self, now_ns: int) -> Sequence[Sample]:
        usage = self._tree.read(now_ns)
        if usage is None:
            return []
        names = JOB if self._tree.io_refused else JOB + JOB_IO
        values = {f"job_{name}": getattr(usage, name) for name in names}
        values["job_cpu_s"] = usage.user_s + usage.system_s
        values |= self._other_ranks.read(now_ns)
        return [Sample(now_ns, "job", values)]

    def _read_holdings(self, now_ns: int) -> Sequence[Sample]:
        pids = self._tree.pids
        sources = (self._holdings, self._children)
        values = {name: value for one in sources for name, value in one.read(now_ns, pids).items()}
        return [Sample(now_ns, "holdings", values)] if values else []


def open_sensors(
    root_pid: int, fetching: Threads, training: Threads = tuple, feeding: Threads = tuple
) -> Sensors:
    """Sensors of the job below ``root_pid``; ``fetching`` names the (pid, tid) inside a fetch right now,
    ``training`` those that run a training loop, ``feeding`` those that such a loop waits for."""
    return Sensors(root_pid, fetching, training=training, feeding=feeding)
