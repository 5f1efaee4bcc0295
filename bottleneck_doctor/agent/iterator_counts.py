"""Counts steps, and decides when a step is listened to; the others are taken to be like it."""

from __future__ import annotations

from time import monotonic_ns as now

from . import device_clock
from .state import IteratorCounts, state
from .stop import due, stop
from .training import listen, rest


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
