"""The processes of a trial: all that descend from it, orphans included, and how they are ended for good."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

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
