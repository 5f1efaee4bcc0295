"""Waits for the training and keeps out of its way: signals pass through once, and job control works.

A signal to our pid goes to the training's pid, loader workers left out, as ``kill`` of ``python train.py``
would. One to our group (the terminal's Ctrl-C, ``timeout``, a CI runner) has reached it: see signals.py.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from . import signals
from .signals import HELD, JOB_STOPS, Held, ReceivedSignal, arrivals, doorbell, held, nudge, stop_ourselves
from .start import CannotStart, Command

NOT_EXECUTABLE = 126
NOT_FOUND = 127


def spawn(command: Command, environ: Mapping[str, str], mask: Iterable[int]) -> int:
    """Start it in our process group, with our very descriptors and the mask we were started with; its pid.

    Python ignores SIGPIPE and SIGXFSZ for itself; the child gets them back, as from ``subprocess``.
    """
    try:
        return os.posix_spawnp(
            command.argv[0],
            command.argv,
            environ,
            setsigmask=mask,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    except OSError as error:
        raise _refused(command.argv[0], error) from error


def look(pid: int) -> int | None:
    """The newest change of state as a wait status; None when nothing changed. Reaps it when it has ended."""
    newest = None
    while True:
        found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
        if found == 0:
            return newest
        newest = status
        if has_ended(status):
            return newest


def has_ended(status: int) -> bool:
    """Whether a wait status is the last one."""
    return os.WIFEXITED(status) or os.WIFSIGNALED(status)


def _refused(program: str, error: OSError) -> CannotStart:
    why = f"cannot start {program!r}: {(error.strerror or str(error)).lower()}"
    if error.errno == errno.ENOENT:
        hint = "if it exists, the interpreter named in its first line does not"
        return CannotStart("start-not-found", f"{why}; {hint}", NOT_FOUND)
    if error.errno == errno.ENOEXEC:
        why += "; a script needs a first line such as '#!/bin/sh', or start it with 'sh'"
    return CannotStart("start-refused", why, NOT_EXECUTABLE)


Tick = Callable[[int], float]

_SHORTEST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 1.0

# A terminal sends these to the whole foreground group, never to one process.
_KEYBOARD = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH})


@dataclass(frozen=True)
class Ended:
    """How the training ended, 128+N being its status for death by signal N; instants are CLOCK_MONOTONIC."""

    pid: int
    exit_status: int
    signal: int | None
    started_ns: int
    ended_ns: int
    notes: tuple[str, ...] = ()


@dataclass
class _Watch:
    """What changes while we wait."""

    held: Held
    tick: Tick | None
    witness: signals.Witness | None
    due_s: float = 0.0
    notes: list[str] = field(default_factory=list)


def supervise(command: Command, environ: Mapping[str, str], tick: Tick) -> Ended:
    """Run the command to its end; only the main thread can. ``tick`` is given the child's pid and returns the
    seconds until it wants to be called again; when it raises, it is let go and the training goes on.

    Raises CannotStart when there is nothing to wait for. Processes that ``tick`` starts inherit our blocked
    signals, so they survive Ctrl-C and only SIGKILL ends them.
    """
    with held() as taken:
        watch = _Watch(taken, tick, signals.station())
        try:
            started_ns = time.monotonic_ns()
            pid = _start(command, environ, watch)
            status = _wait(pid, watch)
            ended_ns = time.monotonic_ns()
        finally:
            signals.dismiss(watch.witness)
    code = os.waitstatus_to_exitcode(status)
    died_of = -code if code < 0 else None
    exit_status = code if died_of is None else 128 + died_of
    return Ended(pid, exit_status, died_of, started_ns, ended_ns, tuple(watch.notes))


def accompany(pid: int, tick: Tick, stop_fd: int) -> tuple[str, ...]:
    """Watch a process that we did not start, until it ends or there is something to read from ``stop_fd``;
    what went wrong. Signals are its own."""
    from .run_registry import lifetime  # the start of a training need not wait for it

    watch, life = _Watch(Held(frozenset()), tick, None), lifetime(pid)
    with doorbell(pid, (), stop_fd) as sleep:
        while not select.select([stop_fd], [], [], 0)[0] and life is not None and lifetime(pid) == life:
            sleep(_tick_if_due(pid, watch))
    return tuple(watch.notes)


def _start(command: Command, environ: Mapping[str, str], watch: _Watch) -> int:
    """Start the child, and hand it what was sent to us or our group before it was there."""
    early = arrivals(watch.held)
    if early:
        watch.witness = signals.relieve(watch.witness)
    pid = spawn(command, environ, watch.held.mask)
    for arrival in early:
        nudge(pid, arrival.number)
    return pid


def _wait(pid: int, watch: _Watch) -> int:
    """The wait status with which the child ended. What it leaves running is left alone."""
    with doorbell(pid, HELD) as sleep:
        while True:
            sleep(_tick_if_due(pid, watch))
            arrived = arrivals(watch.held)
            _pass_on(pid, arrived, watch)
            status = look(pid)
            if status is None:
                continue
            if has_ended(status):
                return status
            # Where we are being continued the child's stop is old news, even if it has not woken yet.
            continued = signal.SIGCONT in signal.sigpending() or any(
                a.number == signal.SIGCONT for a in arrived
            )
            if os.WIFSTOPPED(status) and os.WSTOPSIG(status) in JOB_STOPS and not continued:
                stop_ourselves(os.WSTOPSIG(status))


def _tick_if_due(pid: int, watch: _Watch) -> float:
    """Call the tick when it is time; the seconds that are left until the next call."""
    if watch.tick is None:
        return _LONGEST_PAUSE_S
    left_s = watch.due_s - time.monotonic()
    if left_s > 0:
        return left_s
    try:
        pause_s = max(_SHORTEST_PAUSE_S, min(float(watch.tick(pid)), _LONGEST_PAUSE_S))
    except BaseException as error:  # even SystemExit: whatever fails in there, the training is to be awaited
        watch.tick = None
        watch.notes.append(f"watching stopped early: {type(error).__name__}: {error}")
        return _LONGEST_PAUSE_S
    watch.due_s = time.monotonic() + pause_s
    return pause_s


def _pass_on(pid: int, arrived: list[ReceivedSignal], watch: _Watch) -> None:
    """Send on, once each, the signals that the child has not been sent itself."""
    seen = [signals.saw(watch.witness, arrival.number) for arrival in arrived]
    for arrival, seen_by_all in zip(arrived, seen, strict=True):
        if _is_for_child(arrival, seen_by_all, pid):
            nudge(pid, arrival.number)
    if any(seen):
        watch.witness = signals.relieve(watch.witness)


def _is_for_child(arrival: ReceivedSignal, seen_by_all: bool | None, pid: int) -> bool:
    """Whether to send it to the child. Without a witness, a signal of the kernel's went to the group."""
    if seen_by_all:
        return False
    if arrival.by_kernel and (seen_by_all is None or arrival.number in _KEYBOARD):
        return False
    return arrival.sender != pid  # a child that signals its parent does not mean itself
