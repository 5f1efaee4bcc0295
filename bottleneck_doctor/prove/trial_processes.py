"""The processes of a trial, how they are ended for good, and what they held: only that is removed."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ..launch.signals import stop_ourselves

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37  # of linux/prctl.h
GRACE_S = 3.0  # between being asked to end and being made to
TRACKERS_S = 1.5  # in which those that clear up after the killed may do so
RESOURCE_TRACKERS = ("multiprocessing.resource_tracker", "torch_shm_manager")
ORDERLY_S = 1.5  # for those that end by themselves once the training has
GIVE_UP_S = 5.0  # a process that outlives SIGKILL for so long sleeps in the kernel: nobody can end it
LOOK_EVERY_S = 0.02


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans among our descendants become our children for the time of the block, so that none gets lost.
    Where the kernel does not offer that (before 3.4), daemons of a trial stay unknown to us."""
    before = ctypes.c_int(0)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def child_setup() -> Callable[[], None]:
    """What the child does before it becomes the trial: hears the signals that we hear now, ends with us, and
    goes first when memory ends."""
    libc, parent = ctypes.CDLL(None), os.getpid()
    heard = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, heard)
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # we died before it could ask for that
            os._exit(1)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")

    return prepare


def descendants(earlier: Iterable[psutil.Process] = ()) -> list[psutil.Process]:
    """All processes below us that live, without the ``earlier`` ones that were there before, and theirs."""
    try:
        found = psutil.Process().children(recursive=True)
    except psutil.Error:
        return []
    known = set(earlier)
    if known:
        known |= {below for one in known for below in _below(one)}
    return [one for one in found if one not in known]


def end(processes: Callable[[], list[psutil.Process]], supervisor: int) -> list[int]:
    """Ask all of them to end, then make them; the pids that nothing could end. Comes back when they are gone.

    ``processes`` is asked again and again: what ends may start others meanwhile. The ``supervisor`` (a pid),
    bdoc itself, need not hear of it. Those that remove the killed ones' shared memory are killed last.
    """
    _send([one for one in processes() if one.pid != supervisor], psutil.Process.terminate)
    _wait(processes, GRACE_S, lambda one: one.pid != supervisor)
    _send([one for one in processes() if not _is_tracker(one)], psutil.Process.kill)
    _wait(processes, TRACKERS_S, _is_tracker)
    until = time.monotonic() + GIVE_UP_S
    # The dead count until somebody has collected them.
    while (left := processes()) and time.monotonic() < until:
        _send(reap(left), psutil.Process.kill)
        time.sleep(LOOK_EVERY_S)
    return [one.pid for one in reap(left)]


def await_orderly_end(processes: Callable[[], list[psutil.Process]]) -> None:
    """Give those a moment that end by themselves once the training has: workers, trackers of resources."""
    _wait(processes, ORDERLY_S)


def reap(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that live. The orphans among the others are collected, as nobody else will."""
    living = []
    for one in processes:
        with suppress(psutil.Error):
            if one.status() != psutil.STATUS_ZOMBIE:
                living.append(one)
            elif one.ppid() == os.getpid():
                with suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)
    return living


def _wait(
    processes: Callable[[], list[psutil.Process]],
    seconds: float,
    only: Callable[[psutil.Process], bool] = lambda one: True,
) -> None:
    until = time.monotonic() + seconds
    while any(only(one) for one in reap(processes())) and time.monotonic() < until:
        time.sleep(LOOK_EVERY_S)


def _send(processes: list[psutil.Process], how: Callable[[psutil.Process], None]) -> None:
    for one in processes:
        with suppress(psutil.Error):
            how(one)


def _below(one: psutil.Process) -> list[psutil.Process]:
    try:
        return one.children(recursive=True)
    except psutil.Error:
        return []


def _is_tracker(one: psutil.Process) -> bool:
    try:
        line = " ".join(one.cmdline())
    except psutil.Error:
        return False
    return any(name in line for name in RESOURCE_TRACKERS)


@dataclass
class Pause:
    """``is_wanted`` since somebody asked us to stop."""

    is_wanted: bool = False

    def take(self) -> None:
        """Stop, as was asked; returns when somebody continues us."""
        stop_ourselves(signal.SIGTSTP)
        self.is_wanted = False


@contextmanager
def pausable() -> Iterator[Pause]:
    """Hold requests to stop for the time of the block, where they are not ignored or somebody else's."""
    pause = Pause()
    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield pause
        return

    def want(*_: object) -> None:
        pause.is_wanted = True

    signal.signal(signal.SIGTSTP, want)
    try:
        yield pause
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if pause.is_wanted:
            pause.take()


SHM = "/dev/shm/"
SOCKETS = "/proc/net/unix"  # of our network's namespace
PREFIX = "pymp-"  # of the folders where multiprocessing puts its sockets
LINKS_AT_MOST = 4096  # open files of one process


@dataclass
class HeldResources:
    """``pids`` of its processes, ``blocks`` by inode, ``folders`` of sockets by path."""

    pids: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def note(self, pids: Iterable[int]) -> None:
        """Look at these processes now."""
        sockets = bound_sockets()
        for pid in pids:
            self.pids.add(pid)
            self.blocks |= held_blocks(pid)
            for _, link in _links(pid):
                if path := sockets.get(link):
                    self.folders.add(os.path.dirname(path))


def held_blocks(pid: int | str) -> set[int]:
    """The inodes of the blocks that a process has mapped or open; none where we may not look. A semaphore is
    mapped under another name than it gets, so names would not do."""
    held = set()
    for number, link in _links(pid):
        if link.startswith(SHM):
            with suppress(OSError):
                held.add(os.stat(f"/proc/{pid}/fd/{number}").st_ino)
    with suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        held |= {int(line.split(maxsplit=5)[4]) for line in lines if SHM in line}
    return held


def bound_sockets() -> dict[str, str]:
    """Of the sockets that multiprocessing has bound: what a descriptor's link says, and the path."""
    with suppress(OSError), open(SOCKETS, encoding="utf-8", errors="replace") as lines:
        fields = [line.split(maxsplit=7) for line in lines if PREFIX in line]
        return {f"socket:[{one[6]}]": one[7].strip() for one in fields if len(one) == 8}
    return {}


def _links(pid: int | str) -> list[tuple[str, str]]:
    """The numbers of its descriptors, and what each leads to."""
    links = []
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for count, entry in enumerate(entries):
            if count >= LINKS_AT_MOST:
                break
            with suppress(OSError):
                links.append((entry.name, os.readlink(entry.path)))
    return links


# What torch, multiprocessing, POSIX semaphores and OpenMP name so. A script's own file there is its own.
KNOWN = re.compile(r"(torch_\d+_|psm_|sem\.|__KMP_REGISTERED_LIB_\d+_)")
CREATOR = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_)(\d+)_")
ENTRIES_AT_MOST = 100_000


def blocks(folder: Path = Path(SHM)) -> dict[int, str]:
    """The names of this user's blocks of the kinds that trainings leave, by inode."""
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for count, entry in enumerate(entries):
            if count >= ENTRIES_AT_MOST:
                break
            if KNOWN.match(entry.name) and _is_our_file(entry):
                found[entry.inode()] = entry.name
    return found


def remove_blocks(before: Container[int], resources: HeldResources, folder: Path = Path(SHM)) -> list[str]:
    """Remove the blocks that appeared since, where a process of the trial held or made them, and no living
    one holds them; the names of those removed."""
    fresh = {
        inode: name
        for inode, name in blocks(folder).items()
        if inode not in before and (inode in resources.blocks or _made_by(name, resources.pids))
    }
    held = _held_by_anybody() if fresh else ()
    removed = []
    for name in sorted(name for inode, name in fresh.items() if inode not in held):
        with suppress(OSError):
            os.unlink(folder / name)
            removed.append(name)
    return removed


def remove_folders(resources: HeldResources) -> list[str]:
    """Remove the folders that hold nothing but sockets of the trial that nobody has bound any more."""
    bound = set(bound_sockets().values())
    removed = []
    for folder in sorted(resources.folders):
        with suppress(OSError):
            inside = list(Path(folder).iterdir())
            dead = all(path.is_socket() and str(path) not in bound for path in inside)
            if dead and os.path.basename(folder).startswith(PREFIX):
                shutil.rmtree(folder)
                removed.append(folder)
    return removed


def _is_our_file(entry: os.DirEntry[str]) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
        return entry.is_file(follow_symlinks=False) and found.st_uid == os.getuid()
    except OSError:
        return False


def _made_by(name: str, pids: set[int]) -> bool:
    """Whether a process of the trial that is gone made it."""
    creator = CREATOR.match(name)
    return creator is not None and int(creator[1]) in pids and not os.path.exists(f"/proc/{creator[1]}")


def _held_by_anybody() -> set[int]:
    held: set[int] = set()
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            held |= held_blocks(pid)
    return held
