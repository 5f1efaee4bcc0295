"""Samples what fetching threads and training loops sleep in, from another process, at a bounded cost."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ..model.instruments import Sample
from ..model.run import Gap
from .files import Descriptors, is_network, mount_of, read_mounts, rotational
from .proc_files import what_allows
from .schedule import AdaptivePeriod
from .wait_channels import CLASSES, Descriptor, Thread, Wait, call_numbers, classify

BIN_NS = 500_000_000
MOST_BINS = 4_000


class Bins:
    """Counts per (bucket, key). Doubling the width merges neighbours, so that no count is ever lost."""

    def __init__(self, width_ns: int = BIN_NS, most: int = MOST_BINS) -> None:
        assert width_ns > 0 and most > 0
        self.width_ns = width_ns
        self._widest_ns = width_ns << 30  # stops widening when keys alone outnumber ``most``
        self._most = most
        self._counts: dict[tuple[int, int], Counter[str]] = {}

    def add(self, t_ns: int, key: int, name: str) -> None:
        """Counts one ``name`` of ``key`` at ``t_ns``."""
        place = (t_ns // self.width_ns, key)
        counter = self._counts.get(place)
        if counter is None:
            counter = self._counts[place] = Counter()
        counter[name] += 1
        while len(self._counts) > self._most and self.width_ns < self._widest_ns:
            self._widen()

    def rows(self) -> list[tuple[int, int, dict[str, int]]]:
        """(start of the bucket in ns, key, counts), in order of time."""
        return [
            (bucket * self.width_ns, key, dict(counter))
            for (bucket, key), counter in sorted(self._counts.items(), key=lambda item: item[0])
        ]

    def _widen(self) -> None:
        self.width_ns *= 2
        merged: dict[tuple[int, int], Counter[str]] = {}
        for (bucket, key), counter in self._counts.items():
            merged.setdefault((bucket // 2, key), Counter()).update(counter)
        self._counts = merged


PERIOD_NS = 20_000_000
LONGEST_PERIOD_NS = 1_000_000_000
MOST_THREADS = 64
MOST_FILES = 64  # the first seen: of millions of small ones, a sample says where they live
NAMED = ("storage", "fault", "network", "remote", "sleep")  # that a feeder waits for, and no other thread
JITTER = 0.25  # a strict rhythm would beat against batches of a similar length

Threads = Callable[[], Sequence[tuple[int, int]]]


class WaitSampler:
    """Samples the threads that ``fetching`` and ``training`` name as (pid, tid), and counts what it sees per
    process: inside fetches, and of training loops at all times. A loop that waits in a lock for one of the
    threads ``feeding`` it waits for what that one does."""

    def __init__(
        self, fetching: Threads, training: Threads = tuple, feeding: Threads = tuple, root: Path = Path("/")
    ) -> None:
        self.pace = AdaptivePeriod(PERIOD_NS, LONGEST_PERIOD_NS)
        self._fetching = fetching
        self._training = training
        self._feeding = feeding
        self._root = root
        self._random = random.Random(0)
        self._calls = call_numbers()
        self._mounts = read_mounts(root)
        self._descriptors = Descriptors(self._mounts, root)
        self._files: dict[tuple[int, str], None] = {}
        self._threads: dict[tuple[int, int], Thread] = {}
        self._bins = Bins()
        self._loops = Bins()
        self._refused, self._refuser = "", 0
        self._ignored_threads = 0

    def read(self, now_ns: int) -> None:
        """Samples every thread that is inside a fetch now, and every training loop."""
        began_ns = time.thread_time_ns()
        fetching, training = set(self._fetching()), list(self._training())
        others = sorted(fetching.difference(training))
        beyond = len(training) + len(others) - MOST_THREADS
        self._ignored_threads = max(self._ignored_threads, beyond)
        if beyond > 0:  # other threads each time: the first may all be of one loader
            others = self._random.sample(others, max(0, MOST_THREADS - len(training)))
        for place in [*training[:MOST_THREADS], *others]:
            name = self._look(*place, now_ns)
            if name and place in fetching:
                self._bins.add(now_ns, place[0], name)
            if name and place in training:
                name = self._behind(place[0], now_ns) or name if name == "lock" else name
                self._loops.add(now_ns, place[0], name)
        self.pace.spent(time.thread_time_ns() - began_ns)

    def next_ns(self, now_ns: int) -> int:
        """When the next look is wanted: the affordable period, jittered."""
        return now_ns + int(self.pace.period_ns * self._random.uniform(1 - JITTER, 1 + JITTER))

    def samples(self) -> list[Sample]:
        """The bins so far, then the files seen."""
        samples = [
            Sample(t_ns, sensor, {"pid": pid, **{name: counts.get(name, 0) for name in CLASSES}})
            for sensor, bins in (("blocked", self._bins), ("loop", self._loops))
            for t_ns, pid, counts in bins.rows()
        ]
        end_ns = samples[-1].t_ns if samples else 0
        return samples + [Sample(end_ns, "file", self._describe(*file)) for file in self._files]

    def gaps(self) -> list[Gap]:
        """What the sampler could not see, and why."""
        gaps = []
        if self._refused:
            why = f"/proc/<pid>/syscall cannot be read: {self._refused}; only their state letter was used"
            do = what_allows(self._refuser, self._root)
            gaps.append(Gap("what blocked threads wait for", why, do))
        if self._ignored_threads > 0:
            why = f"{self._ignored_threads} fetching threads more than the {MOST_THREADS} of one look"
            gaps.append(Gap("blocked threads", why))
        if not self._calls:
            why = "the numbers of this architecture are not known"
            gaps.append(Gap("system calls of blocked threads", why))
        return gaps

    def close(self) -> None:
        """Closes every descriptor; the samples stay."""
        for thread in self._threads.values():
            thread.close()
        self._threads.clear()

    def _behind(self, pid: int, now_ns: int) -> str:
        """What the thread that feeds the process's loop does: runs, or sleeps in what can be named."""
        thread = next((tid for process, tid in self._feeding() if process == pid), 0)
        name = self._look(pid, thread, now_ns) if thread else ""
        return "made" if name == "running" else name if name in NAMED else ""

    def _look(self, pid: int, tid: int, now_ns: int) -> str:
        """What the thread is seen in; "" once it has ended."""
        try:
            thread = self._threads.get((pid, tid)) or self._open(pid, tid)
            seen = thread.look()
        except (OSError, ValueError):  # ended between being named and being read
            self._forget(pid, tid)
            return ""
        if thread.refused and not self._refused:
            self._refused, self._refuser = thread.refused, pid
        return "running" if seen is None else self._name(pid, *seen, now_ns)

    def _name(self, pid: int, wait: Wait, argument: int, now_ns: int) -> str:
        descriptor: Descriptor | None = None
        if wait.call_kind == "descriptor" and 0 <= argument < 1 << 31:
            descriptor = self._descriptors.resolve(pid, argument, now_ns)
        has_inet = wait.call_kind in ("poll", "") and self._descriptors.has_inet(pid, now_ns)
        name = classify(wait, descriptor, has_inet)
        path = descriptor.path if descriptor is not None and name in ("storage", "remote") else ""
        if path and len(self._files) < MOST_FILES:
            self._files[pid, path] = None
        return name

    def _describe(self, pid: int, path: str) -> dict[str, float | str]:
        """Where a file lives, its size, and whether its disk spins: 1, 0, or -1 when unknown."""
        mount, size, spins = mount_of(path, self._mounts), 0, None
        if mount is not None:
            spins = rotational(mount, self._root)
            if not is_network(mount.fstype):  # a lost server would hold us up
                with suppress(OSError):
                    size = os.stat(path).st_size
        return {
            "pid": pid,
            "path": path,
            "fstype": mount.fstype if mount is not None else "",
            "rotational": -1 if spins is None else int(spins),
            "bytes": size,
        }

    def _open(self, pid: int, tid: int) -> Thread:
        while len(self._threads) >= 2 * MOST_THREADS:
            self._forget(*next(iter(self._threads)))
        thread = self._threads[pid, tid] = Thread(pid, tid, self._calls, self._root)
        return thread

    def _forget(self, pid: int, tid: int) -> None:
        thread = self._threads.pop((pid, tid), None)
        if thread is not None:
            thread.close()
