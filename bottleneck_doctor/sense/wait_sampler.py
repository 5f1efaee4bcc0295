"""Samples what fetching threads and training loops sleep in, from another process, at a bounded cost.

What a thread sleeps in is named from its system call, its wait channel, its state and its descriptor. Wait
channels are kernel functions and change their names between releases: they are matched by beginnings and
parts of names, and what matches nothing is ``other``.
"""

from __future__ import annotations

import errno
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..model.instruments import Sample
from ..model.run import Gap
from .files import Descriptor, Descriptors, is_network, mount_of, read_mounts, rotational, what_allows
from .schedule import AdaptivePeriod

ARCHITECTURES = ("x86_64", "aarch64")

# name, number on x86_64, number on aarch64; "-" where the architecture has no such call.
_NUMBERS = {
    "descriptor": """
        read 0 63, write 1 64, fstat 5 80, lseek 8 62, pread64 17 67, pwrite64 18 68, readv 19 65,
        writev 20 66, sendfile 40 71, connect 42 203, accept 43 202, sendto 44 206, recvfrom 45 207,
        sendmsg 46 211, recvmsg 47 212, fsync 74 82, fdatasync 75 83, getdents 78 -, readahead 187 213,
        getdents64 217 61, fadvise64 221 223, splice 275 76, sync_file_range 277 84, accept4 288 242,
        preadv 295 69, pwritev 296 70, recvmmsg 299 243, sendmmsg 307 269, copy_file_range 326 285,
        preadv2 327 286, pwritev2 328 287""",
    "path": """
        open 2 -, stat 4 -, lstat 6 -, access 21 -, msync 26 227, madvise 28 233, execve 59 221, rename 82 -,
        mkdir 83 -, unlink 87 -, readlink 89 -, statfs 137 43, sync 162 81, io_getevents 208 4, openat 257 56,
        newfstatat 262 79, unlinkat 263 35, readlinkat 267 78, faccessat 269 48, statx 332 291,
        io_pgetevents 333 292, io_uring_enter 426 426, openat2 437 437, faccessat2 439 439""",
    "sleep": "nanosleep 35 101, clock_nanosleep 230 115",
    "lock": """
        semop 65 193, flock 73 32, futex 202 98, semtimedop 220 192, futex_waitv 449 449,
        futex_wait 455 455""",
    "poll": """
        poll 7 -, select 23 -, epoll_wait 232 -, pselect6 270 72, ppoll 271 73, epoll_pwait 281 22,
        epoll_pwait2 441 441""",
}
# They wait until a disk has what is written; a file's name is an entry in the journal.
WRITES = frozenset("fsync fdatasync msync sync_file_range write pwrite64 rename unlink unlinkat".split())
SOCKET_CALLS = frozenset("connect accept sendto recvfrom sendmsg recvmsg accept4 recvmmsg sendmmsg".split())


def call_numbers(machine: str | None = None) -> dict[int, tuple[str, str]]:
    """Number to (kind, name); empty on an architecture whose numbers we do not know."""
    machine = os.uname().machine if machine is None else machine
    if machine not in ARCHITECTURES:
        return {}
    column = 1 + ARCHITECTURES.index(machine)
    rows = [(kind, entry.split()) for kind, text in _NUMBERS.items() for entry in text.split(",")]
    return {int(words[column]): (kind, words[0]) for kind, words in rows if words[column] != "-"}


GONE = frozenset((errno.ESRCH, errno.ENOENT))
# select and poll on no descriptors at all are sleeps: Python 3.10's time.sleep is one.
COUNT_ARGUMENT = {"select": 1, "pselect6": 1, "poll": 2, "ppoll": 2}


class Thread:
    """The open files of one thread. ``refused`` says why its system call cannot be read, "" if it can."""

    def __init__(self, pid: int, tid: int, calls: dict[int, tuple[str, str]], root: Path = Path("/")) -> None:
        folder = root / "proc" / str(pid) / "task" / str(tid)
        self.refused = ""
        self._calls = calls
        self._call = self._channel = -1
        self._stat = os.open(folder / "stat", os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):
            self._channel = os.open(folder / "wchan", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._call = os.open(folder / "syscall", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self.refused = error.strerror or str(error)

    def close(self) -> None:
        """Closes what is open; may be called twice."""
        for descriptor in (self._stat, self._channel, self._call):
            if descriptor >= 0:
                with suppress(OSError):
                    os.close(descriptor)
        self._stat = self._channel = self._call = -1

    def look(self) -> tuple[Wait, int] | None:
        """What the thread waits in and its call's first argument; None when it runs or may run.

        Raises ProcessLookupError once the thread has ended.
        """
        words = self._call_words()
        if words and words[0] == "running":
            return None
        channel = self._wait_channel()
        kind, name = self._kind(words)
        if words and kind != "fault" and class_of_channel(channel) is not None:
            return Wait("", channel, kind, name), _argument(words, 1)
        state = self._state()
        if state in ("Z", "X", "T", "t", "I"):
            raise ProcessLookupError(errno.ESRCH, f"thread is in state {state}")
        if state == "R" and not words:
            return None
        return Wait(state, channel, kind, name), _argument(words, 1)

    def _call_words(self) -> list[str]:
        if self._call < 0:
            return []
        try:
            return os.pread(self._call, 256, 0).decode("ascii", "replace").split()
        except OSError as error:
            if error.errno in GONE:
                raise ProcessLookupError(errno.ESRCH, "thread has ended") from error
            self.refused = error.strerror or str(error)
            os.close(self._call)
            self._call = -1
            return []

    def _wait_channel(self) -> str:
        if self._channel < 0:
            return ""
        try:
            name = os.pread(self._channel, 128, 0).decode("ascii", "replace").strip()
        except OSError:
            return ""
        return "" if name == "0" else name

    def _state(self) -> str:
        text = os.pread(self._stat, 512, 0)
        return chr(text[text.rindex(b")") + 2])  # the name in brackets may hold any character

    def _kind(self, words: list[str]) -> tuple[str, str]:
        if not words:
            return "", ""
        number = int(words[0]) if words[0].lstrip("-").isdigit() else None
        if number == -1:
            return "fault", ""
        unlisted = ("other", "") if self._calls else ("", "")
        kind, name = self._calls.get(number, unlisted) if number is not None else ("", "")
        counted = COUNT_ARGUMENT.get(name)
        if counted is not None and _argument(words, counted) == 0:
            return "sleep", name
        return kind, name


def _argument(words: list[str], place: int) -> int:
    try:
        return int(words[place], 16)
    except (IndexError, ValueError):
        return -1


# ``made`` is waiting for a thread of the same process, which runs.
CLASSES = tuple("running storage fault written network remote sleep lock pipe poll other made".split())

# Beginnings of wait channels. Order matters: a FUSE or NFS wait is remote whatever the call.
_CHANNELS = {
    "remote": """
        nfs rpc_ xprt_ fuse_ request_wait_answer cifs smb wait_for_response p9_ v9fs netfs_ ceph ll_ cl_sync
        cl_lock ptlrpc osc_ ldlm_ gpfs virtio_fs""",
    "sleep": "hrtimer_nanosleep do_nanosleep schedule_hrtimeout msleep",
    "lock": """
        futex rwsem down_read down_write rtmutex rt_mutex mutex __mutex __down flock locks_lock do_semtimedop
        pcpu_rwsem percpu_rwsem eventfd""",
    "network": "wait_woken sk_wait_data sk_stream_wait tcp_ inet_ __skb_wait udp_ unix_dgram",
    "pipe": "pipe_ anon_pipe fifo_ unix_stream wait_for_partner wait_for_space",
    "poll": "poll_schedule do_sys_poll do_poll do_select ep_poll do_epoll core_sys_select",
    "written": """
        jbd2 do_get_write wait_transaction add_transaction start_this_handle ext4_sync folio_wait_writeback
        blkdev_issue_flush balance_dirty wb_wait sync_""",
    "storage": """
        folio_ __folio wait_on_page __wait_on_page wait_on_buffer __wait_on_buffer __sync_dirty io_schedule
        bit_wait_io iomap_dio __iomap_dio blkdev_ __blkdev submit_bio bio_ blk_ rq_qos wbt_ rwb_ ioc_
        get_request ext4 xfs xlog btrfs f2fs zfs cv_wait dm_ nvme read_extent filemap_ dio_ __blockdev throtl
        read_events io_cqring""",
}
CHANNELS = tuple((name, tuple(beginnings.split())) for name, beginnings in _CHANNELS.items())


@dataclass(frozen=True)
class Wait:
    """A sample of a waiting thread. ``call_kind``: in `_NUMBERS`, else fault, other, or "" if unreadable."""

    state: str
    channel: str
    call_kind: str
    call: str = ""


@lru_cache(maxsize=1024)
def class_of_channel(channel: str) -> str | None:
    """The class whose list holds the beginning of this wait channel, None when it is unknown."""
    for name, beginnings in CHANNELS:
        if channel.startswith(beginnings):
            return name
    return None


def classify(wait: Wait, descriptor: Descriptor | None, has_inet: bool) -> str:
    """One of CLASSES. ``has_inet``: whether the process has a connected internet socket (for polls)."""
    by_channel, stored = class_of_channel(wait.channel), "written" if wait.call in WRITES else "storage"
    by_channel = stored if by_channel == "storage" else by_channel
    if by_channel == "remote":
        return "remote"
    if wait.call_kind in ("sleep", "lock"):
        return wait.call_kind
    if wait.call_kind == "poll" or (by_channel == "poll" and wait.call_kind != "descriptor"):
        return "network" if has_inet else "poll"
    if wait.call_kind == "fault":
        if by_channel in ("lock", "storage"):
            return "lock" if by_channel == "lock" else "fault"
        return "other" if wait.state == "S" else "fault"
    if wait.call_kind == "descriptor" and descriptor is not None:
        return _by_descriptor(wait, descriptor, by_channel, stored)
    if by_channel is not None:
        return by_channel
    # Local file systems sleep uninterruptibly; a thread that has woken since (R) shows no channel any more.
    if wait.call_kind == "path":
        return "other" if wait.state == "S" else stored
    return stored if wait.state == "D" and wait.call_kind in ("descriptor", "") else "other"


def _by_descriptor(wait: Wait, descriptor: Descriptor, by_channel: str | None, stored: str) -> str:
    if descriptor.kind in ("network", "inet", "pipe"):
        return {"network": "remote", "inet": "network", "pipe": "pipe"}[descriptor.kind]
    if wait.call in SOCKET_CALLS and by_channel is None:
        return "network"
    if by_channel is not None:
        return by_channel
    return stored if wait.state != "S" and descriptor.kind == "file" else "other"


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
NAMED = tuple("storage fault written network remote sleep".split())  # that a feeder waits for, alone
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
