"""Follows the job's processes and other ranks of its launcher, and reads how much memory they hold and how
much CPU time their threads use."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from .files import PAGE_BYTES, TICKS_PER_S, children_of, read_pairs, read_stat, read_text
from .host import Values

FIND_PERIOD_NS = 1_000_000_000
MOST_PROCESSES = 4_096
MARK = b"BDOC_RUN="  # in the environment of each process of a run
DEEPEST = 64  # ancestors that are asked
RANKS = (b"RANK", b"OMPI_COMM_WORLD_RANK", b"SLURM_PROCID", b"PMI_RANK")  # LAUNCHERS of the agent


@dataclass(frozen=True)
class Usage:
    """What one process used, by COUNTERS; children that were waited for are included."""

    parent: int
    started: int
    rss_pages: int
    counts: dict[str, int]


# Name, and how many of the kernel's unit make one.
COUNTERS = {"job_cpu_s": TICKS_PER_S, "job_system_s": TICKS_PER_S, "job_major_faults": 1, "job_read_bytes": 1}


class Tree:
    """The processes below ``root_pid``. Orphans stay members until they end, those that no reading saw as
    children included: they carry the mark of the same run.

    A parent's counters take over a child's when the child is waited for, so adding up the living is right
    even for processes too short-lived to be seen. Only who ends as an orphan must be remembered here.
    """

    def __init__(self, root_pid: int, root: Path = Path("/")) -> None:
        self.io_refused = False
        self._root_pid, self._proc = root_pid, root / "proc"
        self._living: dict[int, Usage] = {}
        self._orphans: Counter[str] = Counter()
        self._most: Counter[str] = Counter()
        self._found_ns: int | None = None
        self._members: set[int] = {root_pid}
        self._mark = b""
        self._asked: set[int] = set()
        self._lists_children = (self._proc / str(root_pid) / "task" / str(root_pid) / "children").exists()

    @property
    def pids(self) -> frozenset[int]:
        """The members seen at the last reading."""
        return frozenset(self._living)

    def read(self, now_ns: int) -> Values:
        """The tree's sums, counters never less than before; empty once nothing of the tree lives."""
        if self._found_ns is None or now_ns - self._found_ns >= FIND_PERIOD_NS:
            self._members |= self._strays()
            self._members |= self._descendants()
            self._found_ns = now_ns
        living = {pid: usage for pid in self._members if (usage := self._read_one(pid)) is not None}
        for pid, last in self._living.items():
            if pid not in living and last.parent not in self._living:
                self._orphans.update(last.counts)
        self._living, self._members = living, set(living)
        if not living:
            return {}
        total = self._orphans.copy()
        for usage in living.values():
            total.update(usage.counts)
        self._most |= total  # a child that ends between two reads would be missing for one reading
        return {
            "job_rss_bytes": PAGE_BYTES * sum(usage.rss_pages for usage in living.values()),
            "job_largest_rss_bytes": PAGE_BYTES * max(usage.rss_pages for usage in living.values()),
            **{
                name: self._most[name] / unit
                for name, unit in COUNTERS.items()
                if not (self.io_refused and name == "job_read_bytes")
            },
        }

    def _descendants(self) -> set[int]:
        """All processes below the known members, through the kernel's lists of children."""
        if not self._lists_children:
            return _descendants_by_scan(self._root_pid)
        seen = set(self._members)
        queue = list(seen)
        while queue and len(seen) < MOST_PROCESSES:
            fresh = set(children_of(self._proc, queue.pop())) - seen
            seen |= fresh
            queue += fresh
        return seen

    def _strays(self) -> set[int]:
        """Orphans of this run among the children of our ancestors; each is asked once."""
        self._mark = self._mark or self._mark_of(self._root_pid)
        if not self._mark:
            return set()
        ancestors = _ancestors(self._proc, self._root_pid)
        orphans = {child for parent in ancestors for child in children_of(self._proc, parent)}
        orphans -= self._members
        fresh = orphans - self._asked
        self._asked = orphans  # the others are gone; their numbers may come again
        return {pid for pid in fresh if self._mark_of(pid) == self._mark}

    def _mark_of(self, pid: int) -> bytes:
        """The run that a process belongs to; empty where its environment has none or cannot be read."""
        return next((word for word in _environ(self._proc, pid) if word.startswith(MARK)), b"")

    def _read_one(self, pid: int) -> Usage | None:
        words = read_stat(self._proc, pid)
        if len(words) < 22 or words[0] == "X":
            return None
        number = [0, *map(int, words[1:22])]  # number[n] is field n + 3 of proc(5)
        known = self._living.get(pid)
        if known is not None and known.started != number[19]:
            return None  # another process got the number
        counts = read_pairs(self._proc / str(pid) / "io")
        if not counts:
            state = read_stat(self._proc, pid)[:1]  # once more: it may have ended in between
            if not state:
                return None
            self.io_refused = self.io_refused or state != ["Z"]
        before = known.counts["job_read_bytes"] if known is not None else 0
        return Usage(
            parent=number[1],
            started=number[19],
            rss_pages=number[21],
            counts={
                "job_cpu_s": sum(number[11:15]),
                "job_system_s": number[12] + number[14],
                "job_major_faults": number[9] + number[10],
                "job_read_bytes": counts.get("read_bytes", before),
            },
        )


def _descendants_by_scan(pid: int) -> set[int]:
    """For kernels without lists of children: one walk over every process of the machine."""
    import psutil

    try:
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    except psutil.Error:
        return set()


class OtherRanks:
    """What the ranks use that the launcher of this one started on the same machine, each with its workers.

    The launcher (torchrun, Slurm's step, mpirun) is the nearest ancestor without a rank of its own.
    """

    def __init__(self, root_pid: int, root: Path = Path("/")) -> None:
        self._root, self._proc = root, root / "proc"
        self._name, self._rank = _rank_of(self._proc, root_pid)
        ancestors = _ancestors(self._proc, root_pid) if self._name else []
        others = (one for one in ancestors if _rank_of(self._proc, one) != (self._name, self._rank))
        self._launcher = next(others, 0)
        self._once: set[int] = set()  # children of the launcher that were asked for their rank
        self._twice: set[int] = set()
        self._trees: dict[int, Tree] = {}
        self._used_s: dict[int, float] = {}

    def read(self, now_ns: int) -> Values:
        """How many of them live, and CPU seconds of all, the dead included; nothing where there are none."""
        if not self._launcher:
            return {}
        children = set(children_of(self._proc, self._launcher))
        for pid in children - self._twice:  # at the first reading it may have yet to call exec
            name, rank = _rank_of(self._proc, pid)
            if name == self._name and rank != self._rank:
                self._trees.setdefault(pid, Tree(pid, self._root))
        self._twice, self._once = self._once & children, children
        alive = 0
        for pid, tree in self._trees.items():
            used = tree.read(now_ns) if pid in children else {}
            if used:
                alive += 1
                self._used_s[pid] = float(used["job_cpu_s"])
        return {"other_ranks": alive, "other_ranks_cpu_s": sum(self._used_s.values())} if self._trees else {}


def _rank_of(proc: Path, pid: int) -> tuple[bytes, bytes]:
    """The variable that holds the process's rank, and the rank; empty where none is set."""
    known = dict(word.partition(b"=")[::2] for word in _environ(proc, pid))
    return next(((name, known[name]) for name in RANKS if known.get(name)), (b"", b""))


def _environ(proc: Path, pid: int) -> list[bytes]:
    """With which a process began; nothing where we may not read it."""
    try:
        return (proc / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _ancestors(proc: Path, pid: int) -> list[int]:
    """The nearest first."""
    found: list[int] = []
    while pid > 1 and len(found) < DEEPEST:
        words = read_stat(proc, pid)
        pid = int(words[1]) if len(words) > 1 else 0
        if pid > 0:
            found.append(pid)
    return found


MOST_MEASURED = 16
MOST_WALKED = 2  # a walk over a process's page tables takes 14 ms a gigabyte, and holds up its page faults
MAPPED_AT = 3  # that reading, some seconds into the run: by then data sets are open
NO_DATA = ("/dev/", "/memfd:", "/SYSV", "/usr/lib/locale/")  # shared memory and the C library's own files


class Holdings:
    """Sums private memory over the processes, and finds the one nearest to its limit of open files; once, the
    largest amount of data that one of them has mapped."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._readings = 0

    def read(self, pids: Iterable[int]) -> Values:
        """One reading."""
        chosen = sorted(pids)[:MOST_MEASURED]
        self._readings += 1
        values = {**self._memory(chosen), **self._descriptors(chosen)}
        if self._readings == MAPPED_AT:
            known = [size for pid in chosen if (size := self._mapped(pid)) is not None]
            values |= {"mapped_data_bytes": max(known)} if known else {}
        return values

    def _memory(self, pids: list[int]) -> Values:
        """By the kernel's counters, which count what a forked worker shares with its parent as the worker's:
        of workers the page tables are walked, of some that stand for all."""
        read = {pid: read_pairs(self._proc / str(pid) / "status") for pid in pids}
        known = {pid: one for pid, one in read.items() if "RssAnon" in one}
        if not known:
            return {}
        private = {pid: one["RssAnon"] for pid, one in known.items()}
        forked = [pid for pid, one in known.items() if self._is_forked(pid, one.get("PPid", 0))]
        walked = [read_pairs(self._proc / str(pid) / "smaps_rollup") for pid in forked[:MOST_WALKED]]
        own = [one["Private_Dirty"] for one in walked if "Private_Dirty" in one]
        private |= dict.fromkeys(forked, round(fmean(own))) if own else {}
        return {"job_private_bytes": 1024 * sum(private.values())}

    def _is_forked(self, pid: int, parent: int) -> bool:
        """Whether it runs the program of its parent's, started by the same command."""
        commands = [read_text(self._proc / str(one) / "cmdline") for one in (pid, parent)]
        return bool(commands[0]) and commands[0] == commands[1]

    def _mapped(self, pid: int) -> int | None:
        """Bytes of files that are mapped and hold no code; None where the list cannot be read."""
        text = read_text(self._proc / str(pid) / "maps")
        if text is None:
            return None
        sizes: dict[str, int] = {}
        code = set()
        for line in text[: text.rfind("\n") + 1].splitlines():  # the list may be longer than what is read
            span, mode, _, _, inode, *path = line.split(None, 5)
            if inode == "0" or not path or path[0].startswith(NO_DATA):
                continue
            first, last = (int(end, 16) for end in span.split("-"))
            sizes[path[0]] = sizes.get(path[0], 0) + last - first
            if "x" in mode:
                code.add(path[0])
        return sum(size for path, size in sizes.items() if path not in code and ".so" not in path)

    def _descriptors(self, pids: list[int]) -> Values:
        """Of the process with the largest share of its own limit in use."""
        found = [both for pid in pids if (both := self._open_files(pid)) is not None]
        if not found:
            return {}
        used, limit = max(found, key=lambda both: both[0] / both[1])
        return {"descriptors": used, "descriptor_limit": limit}

    def _open_files(self, pid: int) -> tuple[int, int] | None:
        try:
            used = len(os.listdir(self._proc / str(pid) / "fd"))
        except OSError:
            return None
        for line in (read_text(self._proc / str(pid) / "limits") or "").splitlines():
            if line.startswith("Max open files"):
                words = line.split()
                return (used, int(words[3])) if words[3].isdigit() and int(words[3]) > 0 else None
        return None


MOST_THREADS = 512  # of one reading; each takes some microseconds


class ChildThreads:
    """Sums over processes and threads, the ended included as far as they were read: they only grow."""

    def __init__(self, root_pid: int, root: Path = Path("/")) -> None:
        self._root_pid, self._proc = root_pid, root / "proc"
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        self._main_ns = self._waited_ns = self._others_ns = 0

    def read(self, pids: Iterable[int]) -> Values:
        """One reading, nothing where there was never a child."""
        threads = [(pid, tid) for pid in sorted(pids) if pid != self._root_pid for tid in self._threads(pid)]
        threads.sort(key=lambda one: one[0] != one[1])  # main threads first: each stands for a process
        seen = {
            (pid, tid): used
            for pid, tid in threads[:MOST_THREADS]
            if (used := _used(self._proc / str(pid) / "task" / str(tid) / "schedstat")) is not None
        }
        for (pid, tid), (cpu_ns, waited_ns) in seen.items():
            before = self._last.get((pid, tid), (0, 0))
            cpu_ns, waited_ns = max(0, cpu_ns - before[0]), max(0, waited_ns - before[1])
            if pid == tid:
                self._main_ns += cpu_ns
                self._waited_ns += waited_ns
            else:
                self._others_ns += cpu_ns
        known = bool(self._last or seen)
        # One that was left out keeps what is known of it: read again, it would be counted twice.
        self._last = {one: self._last[one] for one in threads if one in self._last} | seen
        if not known:
            return {}
        return {
            "children_main_cpu_s": self._main_ns / 1e9,
            "children_main_queue_s": self._waited_ns / 1e9,
            "children_beside_cpu_s": self._others_ns / 1e9,
        }

    def _threads(self, pid: int) -> list[int]:
        try:
            return sorted(int(name) for name in os.listdir(self._proc / str(pid) / "task"))
        except OSError:  # it has ended
            return []


def _used(schedstat: Path) -> tuple[int, int] | None:
    """Nanoseconds on a core and of waiting for one; None where the kernel does not say, or it has ended."""
    words = (read_text(schedstat) or "").split()
    return (int(words[0]), int(words[1])) if len(words) == 3 else None
