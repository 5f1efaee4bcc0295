"""The processes of a trial: how they start, how all of them are ended, and which shared memory they leave."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37  # of linux/prctl.h
GRACE_S = 3.0  # between SIGTERM and SIGKILL
TRACKERS_S = 1.5  # in which the trackers may remove what the killed ones left
RESOURCE_TRACKERS = ("multiprocessing.resource_tracker", "torch_shm_manager")
ORDERLY_S = 1.5  # for those that end by themselves once the training has
GIVE_UP_S = 5.0  # a process that outlives SIGKILL for so long sleeps in the kernel: nothing ends it
POLL_S = 0.02

Find = Callable[[], list[psutil.Process]]


@contextmanager
def adopting() -> Iterator[None]:
    """Orphans among our descendants become our children for the time of the block, so that none gets lost."""
    before = ctypes.c_int(0)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def child_setup() -> Callable[[], None]:
    """What the child does before it becomes the trial: takes our mask of signals as it is now, ends with us,
    and is the first that the kernel kills when memory ends."""
    libc, parent = ctypes.CDLL(None), os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # we died before it could ask for that
            os._exit(1)
        with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")

    return prepare


def descendants(earlier: Iterable[psutil.Process] = ()) -> list[psutil.Process]:
    """All processes below us, without the ``earlier`` ones that were there before, and theirs."""
    known = set(earlier)
    for one in list(known):
        with suppress(psutil.Error):
            known.update(one.children(recursive=True))
    try:
        return [one for one in psutil.Process().children(recursive=True) if one not in known]
    except psutil.Error:
        return []


def end_all(child: subprocess.Popen[bytes], earlier: list[psutil.Process], held: HeldResources) -> None:
    """End whatever still runs of the trial that ``child`` began. A child that has ended leaves its workers a
    moment to follow; ``held`` notes those that remain."""

    def living() -> list[psutil.Process]:
        child.poll()  # collects it, so that it is no zombie to the others
        return _living(descendants(earlier))

    if child.poll() is not None:
        _wait(living, ORDERLY_S)
    left = living()
    held.note(one.pid for one in left)
    # bdoc's own supervisor ends by itself when its training does, and writes what it knows by then.
    _send([one for one in left if one.pid != child.pid], psutil.Process.terminate)
    _wait(lambda: [one for one in living() if one.pid != child.pid], GRACE_S)
    # What is killed cannot remove its shared memory: the processes that do so for it are killed last.
    _send([one for one in living() if not _is_tracker(one)], psutil.Process.kill)
    _wait(lambda: [one for one in living() if _is_tracker(one)], TRACKERS_S)
    until = time.monotonic() + GIVE_UP_S
    while (left := living()) and time.monotonic() < until:
        _send(left, psutil.Process.kill)
        time.sleep(POLL_S)


def _living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Without zombies. The orphans among those are collected here: no other process will."""
    living = []
    for one in processes:
        with suppress(psutil.Error):
            if one.status() != psutil.STATUS_ZOMBIE:
                living.append(one)
            elif one.ppid() == os.getpid():
                with suppress(ChildProcessError):
                    os.waitpid(one.pid, os.WNOHANG)
    return living


def _wait(processes: Find, seconds: float) -> None:
    until = time.monotonic() + seconds
    while processes() and time.monotonic() < until:
        time.sleep(POLL_S)


def _send(processes: list[psutil.Process], how: Callable[[psutil.Process], None]) -> None:
    for one in processes:
        with suppress(psutil.Error):
            how(one)


def _is_tracker(one: psutil.Process) -> bool:
    try:
        line = " ".join(one.cmdline())
    except psutil.Error:
        return False
    return any(name in line for name in RESOURCE_TRACKERS)


SHM = "/dev/shm/"
# What torch, multiprocessing, POSIX semaphores and OpenMP name so. A script's own file there stays.
KNOWN = re.compile(r"(torch_\d+_|psm_|sem\.|__KMP_REGISTERED_LIB_\d+_)")
CREATOR = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_)(\d+)_")


@dataclass
class HeldResources:
    """Of a trial: the ``pids`` of its processes, and the ``blocks`` of shared memory they had, by inode."""

    pids: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)

    def note(self, pids: Iterable[int]) -> None:
        """Note what these processes have mapped now."""
        for pid in pids:
            self.pids.add(pid)
            self.blocks |= mapped_blocks(pid)


def mapped_blocks(pid: int | str) -> set[int]:
    """The inodes of the blocks that a process has mapped. A semaphore is mapped under another name than it
    gets, so names would not do."""
    with suppress(OSError), open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:
        return {int(line.split(maxsplit=5)[4]) for line in lines if SHM in line}
    return set()


def blocks(folder: Path = Path(SHM)) -> dict[int, str]:
    """The names of this user's blocks of the kinds that trainings leave, by inode."""
    found = {}
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                of = entry.stat(follow_symlinks=False)
                if (
                    KNOWN.match(entry.name)
                    and entry.is_file(follow_symlinks=False)
                    and of.st_uid == os.getuid()
                ):
                    found[entry.inode()] = entry.name
    return found


def remove_blocks(before: Container[int], held: HeldResources, folder: Path = Path(SHM)) -> None:
    """Remove the blocks that appeared since, where a process of the trial had or made them, and no living
    process has them mapped."""

    def is_of_trial(inode: int, name: str) -> bool:
        creator = CREATOR.match(name)
        made = creator is not None and int(creator[1]) in held.pids and not psutil.pid_exists(int(creator[1]))
        return inode not in before and (inode in held.blocks or made)

    fresh = {inode: name for inode, name in blocks(folder).items() if is_of_trial(inode, name)}
    in_use = {inode for pid in psutil.pids() for inode in mapped_blocks(pid)} if fresh else set()
    for inode, name in fresh.items():
        if inode not in in_use:
            with suppress(OSError):
                os.unlink(folder / name)
