"""Counts steps, and decides when a step is listened to; the others are taken to be like it."""

from __future__ import annotations

from time import monotonic_ns as now

from . import device_clock
from .patch_training import listen, rest
from .pulse import state
from .stop import due, stop


class IteratorCounts:
    """What we know of one iterator.

    ``rate`` = (backward passes, optimizer steps) of the step after the last close look, taken for the steps
    from the arrival ``rested`` on until the next look, ``countdown`` of them. ``seen`` = how many there had
    been at that look, ``left_ns`` = when its batch was there, ``spent_ns`` = what the look took of the loop's
    time after that. ``beside`` = what the iterator whose steps count had arrived at by then. ``tallied`` =
    the (arrivals, wait) that the process's totals hold already.
    """

    __slots__ = (
        "arrivals", "beside", "countdown", "left_ns", "loader", "looked", "number", "rate", "rested", "seen",
        "spent_ns", "tallied", "thread", "wait_ns",
    )  # fmt: skip

    def __init__(self, loader: int, number: int, thread: int) -> None:
        self.loader, self.number, self.thread = loader, number, thread
        self.arrivals = self.looked = self.wait_ns = self.countdown = self.left_ns = self.spent_ns = 0
        self.beside = self.rested = 0
        self.seen = self.rate = self.tallied = (0, 0)


def settle(account: IteratorCounts) -> None:
    """At a close look: count the step that ended here, and listen to the one that begins."""
    if not state.resting:
        _count()
        if state.heard is account:
            _learn(account)
    state.catch_up(account)
    account.seen = (state.backwards, state.optimizer_steps)
    account.beside = state.pacer.arrivals if state.pacer is not None else 0
    state.heard = account
    listen()
    if state.stop_at and due():
        stop()


def heard(account: IteratorCounts) -> None:
    """A step ended while the hooks were on; if it was this iterator's, and it trained, they may rest."""
    entry = now()
    device_clock.end(account)
    _count()
    if state.heard is account:
        _learn(account)
        state.heard, state.close = None, False
        pacer = state.pacer
        if pacer is not None and account.rate[0]:
            pacer.rested = pacer.arrivals - (pacer is not account)  # another's step goes on
            rest()
            state.hooks_ns += now() - entry


def _count() -> None:
    if state.backwards != state.seen:
        state.seen = state.backwards
        if not state.loaderless:
            state.trained += 1


def _learn(account: IteratorCounts) -> None:
    """What one step did is taken for those until the next close look, by one iterator of those open: not by
    one that is asked now and then while another goes on, since each change loses the steps in between."""
    backwards, steps = account.seen
    account.rate = (state.backwards - backwards, state.optimizer_steps - steps)
    pacer = state.pacer
    if account.rate[0]:
        state.trained_on = account.loader
        state.pacer = account if pacer is None or pacer.arrivals == account.beside else pacer
    elif pacer is account:
        state.pacer = None
