"""Which signals the supervisor takes, holds and waits for them, and whether the whole group got one."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

# Not held: they cannot be caught, report a fault of this process, or (TTIN, TTOU) stop its whole group.
_LEFT_ALONE = {
    getattr(signal, name)
    for name in (
        "SIGKILL SIGSTOP SIGSEGV SIGBUS SIGFPE SIGILL SIGTRAP SIGSYS SIGPIPE SIGXFSZ SIGTTIN SIGTTOU"
    ).split()
}

# All others that may be sent to the training: batch systems use more than INT and TERM.
HELD: frozenset[int] = frozenset(int(number) for number in signal.valid_signals() - _LEFT_ALONE)

# Stops that belong to job control, done to a whole job. A bare SIGSTOP is aimed at one process.
JOB_STOPS: frozenset[int] = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})

_ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)

_BY_KERNEL = 0x80  # SI_KERNEL of siginfo; the signal module does not name it

_MOST_ARRIVALS = 64  # read per wake-up; a flood must not keep us from reaping

Handler = Callable[[int, "FrameType | None"], Any]


@dataclass(frozen=True)
class Held:
    """The mask we were started with, and signals that another thread of this process caught."""

    mask: frozenset[int]
    strays: deque[int] = field(default_factory=deque)


@dataclass(frozen=True)
class ReceivedSignal:
    """One signal that was sent to us, by whom as far as we know."""

    number: int
    by_kernel: bool = False
    sender: int | None = None


@contextmanager
def held() -> Iterator[Held]:
    """Hold the signals for the time of the block; those that still wait at its end are dropped.

    Processes started inside inherit the block unless they are started with another mask.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    taken = Held(frozenset(int(number) for number in before))
    # A mask covers one thread. A library's thread that was there earlier would still let the signal kill us.
    replaced = _handle(HELD - {signal.SIGCHLD}, lambda number, _: taken.strays.append(number))
    children = signal.getsignal(signal.SIGCHLD)
    if children is signal.SIG_IGN:  # the kernel would throw the exit status away
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield taken
    finally:
        while signal.sigtimedwait(HELD, 0) is not None:
            pass
        signal.signal(signal.SIGCHLD, children)
        _restore(replaced)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def arrivals(taken: Held) -> list[ReceivedSignal]:
    """What has arrived since the last call, SIGCHLD left out.

    Never waits: in a process that is stopped until that time is over, CPython's sigtimedwait returns
    uninitialised memory as if a signal had come, and we would pass on a signal that was never sent.
    """
    found: list[ReceivedSignal] = []
    while len(found) < _MOST_ARRIVALS and (info := signal.sigtimedwait(HELD, 0)) is not None:
        found.append(ReceivedSignal(info.si_signo, info.si_code == _BY_KERNEL, info.si_pid))
    while taken.strays:
        found.append(ReceivedSignal(taken.strays.popleft()))
    return [arrival for arrival in found if arrival.number != signal.SIGCHLD]


@contextmanager
def unwinding() -> Iterator[None]:
    """Let signals that would end us on the spot raise SystemExit, so that what is open gets closed."""
    replaced = _handle([number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL], _leave)
    try:
        yield
    finally:
        _restore(replaced)


@contextmanager
def deferred() -> Iterator[None]:
    """Keep signals that would end us waiting until the block is done."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stop_ourselves(number: int) -> None:
    """Stop as our child did, so that the shell sees the job stopped; returns after SIGCONT."""
    handler = signal.signal(number, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    try:
        signal.raise_signal(number)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(number, handler)


def nudge(child_pid: int, number: int) -> None:
    """Send a signal to the training process alone, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(child_pid, number)


def _handle(numbers: Iterable[int], handler: Handler) -> dict[int, Any]:
    """Install a handler, except for ignored signals: those must reach the child ignored."""
    replaced = {}
    for number in numbers:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            replaced[number] = signal.signal(number, handler)
    return replaced


def _restore(replaced: dict[int, Any]) -> None:
    for number, handler in replaced.items():
        signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


# A signal that a library's thread caught does not wake us, so we poll; more often without a signalfd.
_LOOK_UP_S = 0.25
_LOOK_UP_WITHOUT_BELL_S = 0.02

Sleep = Callable[[float], None]


@contextmanager
def doorbell(child_pid: int, numbers: Iterable[int], stop_fd: int | None = None) -> Iterator[Sleep]:
    """A function that sleeps at most so many seconds, cut short by one of the signals, the child's end, or
    something to read from the descriptor ``stop_fd``."""
    bells = select.poll()
    if stop_fd is not None:
        bells.register(stop_fd, select.POLLIN)
    longest_s = _LOOK_UP_S
    with ExitStack() as opened:
        bell: Callable[[], int]
        for bell in (lambda: os.pidfd_open(child_pid), lambda: _signalfd(numbers)):
            try:
                descriptor = bell()
            except (AttributeError, ImportError, OSError):  # an old system, a bare Python, or a sandbox
                longest_s = _LOOK_UP_WITHOUT_BELL_S
            else:
                opened.callback(os.close, descriptor)
                bells.register(descriptor, select.POLLIN)

        def sleep(seconds: float) -> None:
            bells.poll(min(seconds, longest_s) * 1e3)

        yield sleep


def _signalfd(numbers: Iterable[int]) -> int:
    """It only wakes us: the signals, and who sent them, are read elsewhere."""
    import ctypes  # not every Python has it

    libc = ctypes.CDLL(None, use_errno=True)
    mask = (ctypes.c_uint64 * 16)(sum(1 << (number - 1) for number in numbers))
    descriptor = libc.signalfd(-1, ctypes.byref(mask), os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return int(descriptor)


@dataclass(frozen=True)
class Witness:
    """``cat`` reading from a pipe that is never written to; it ends with us, however we end."""

    pid: int
    lifeline: int


def station() -> Witness | None:
    """Put a witness into our group, or None where that is impossible."""
    reader, writer = os.pipe()
    quiet = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    try:
        pid = os.posix_spawnp(
            "cat",
            ["cat"],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *quiet],
            setsigmask=signal.valid_signals(),
        )
    except OSError:
        os.close(writer)
        return None
    finally:
        os.close(reader)
    return Witness(pid, writer)


def saw(witness: Witness | None, number: int) -> bool | None:
    """Whether the signal reached the witness too; None when that is unknown."""
    if witness is None:
        return None
    try:
        with open(f"/proc/{witness.pid}/status", encoding="ascii", errors="replace") as file:
            waiting = [int(line.split()[1], 16) for line in file if line.startswith(("SigPnd:", "ShdPnd:"))]
    except OSError:
        return None
    return any(mask >> (number - 1) & 1 for mask in waiting)


def relieve(witness: Witness | None) -> Witness | None:
    """A fresh witness for one that has seen something: what waits for it would hide the next one."""
    successor = station()
    dismiss(witness)
    return successor


def dismiss(witness: Witness | None) -> None:
    """End the witness; by SIGKILL, because it may be stopped with the job."""
    if witness is not None:
        os.kill(witness.pid, signal.SIGKILL)
        os.waitpid(witness.pid, 0)
        os.close(witness.lifeline)
