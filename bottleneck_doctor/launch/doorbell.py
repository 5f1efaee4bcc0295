"""Lets the supervisor sleep until a held signal or the child's end rings, costing nothing meanwhile."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

# A signal that a library's thread caught rings no bell, so we look up now and then; often, without a bell.
_LOOK_UP_S = 0.25
_LOOK_UP_WITHOUT_BELL_S = 0.02

Sleep = Callable[[float], None]


@contextmanager
def doorbell(child_pid: int, numbers: Iterable[int]) -> Iterator[Sleep]:
    """A function that sleeps at most so many seconds, cut short by one of the signals or the child's end."""
    bells = select.poll()
    longest_s = _LOOK_UP_S
    with ExitStack() as opened:
        for bell in (_of_the_child, _of_signals):
            try:
                descriptor = bell(child_pid, numbers)
            except (AttributeError, ImportError, OSError):  # an old system, a bare Python, or a sandbox
                longest_s = _LOOK_UP_WITHOUT_BELL_S
            else:
                opened.callback(os.close, descriptor)
                bells.register(descriptor, select.POLLIN)
        yield lambda seconds: _sleep(bells, min(seconds, longest_s))


def _sleep(bells: select.poll, seconds: float) -> None:
    bells.poll(seconds * 1e3)


def _of_the_child(child_pid: int, _: Iterable[int]) -> int:
    return os.pidfd_open(child_pid)


def _of_signals(_: int, numbers: Iterable[int]) -> int:
    """A signalfd. It only rings: the signals themselves are taken elsewhere, with who sent them."""
    import ctypes  # not every Python has it

    libc = ctypes.CDLL(None, use_errno=True)
    mask = (ctypes.c_uint64 * 16)(sum(1 << (number - 1) for number in numbers))
    descriptor = libc.signalfd(-1, ctypes.byref(mask), os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "signalfd")
    return int(descriptor)
