"""Fits what no clock shows, so that the replay of the run as it was gives the measured step time.

Each number has bounds of its own; what they cannot explain stays, and widens every interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..model.diagnosis import Scenario
from .replay import step_seconds, turn_seconds

ROUNDS = 12  # of halving: to a four-thousandth of the range
SLICES = 4.0  # times as long as usual at most, until whoever wakes gets a core (ours)
TELLS = 1.01  # times the replayed step at least, or the number has no say in it (ours)
FREE = 0.2  # of the measured turn at least is computing, not interference (ours)


def fitted(base: Scenario, measured: float, own: float, bulky: bool) -> Scenario:
    """``measured`` is the step, ``own`` the loop's time in it outside of ``next``, in seconds; ``bulky``
    batches are many tensors, or many bytes through a pipe."""
    if base.workers == 0:
        return base
    if bulky:
        base = _moved(base, measured)
    return _woken(_sped(_turned(base, own), measured), measured)


def _moved(base: Scenario, measured: float) -> Scenario:
    """What the replay lacks is the loop waiting for the worker's other threads to send.

    An epoch's first batch is moved like all others: that is no cost of beginning an epoch.
    """
    base = _transferred(base, measured)
    moving = base.hand_over + base.serialise + base.transfer
    start = max(0.0, base.epoch_start - moving)
    return _transferred(replace(base, transfer=0.0, epoch_start=start), measured)


def _transferred(base: Scenario, measured: float) -> Scenario:
    return _slowed(base, measured, lambda value: replace(base, transfer=value), 0.0, measured)


def _woken(base: Scenario, measured: float) -> Scenario:
    """Where workers keep the cores busy, what lacks is waiting for a core at each wake-up."""
    most = SLICES * base.waking
    return _slowed(base, measured, lambda value: replace(base, waking=value), base.waking, most)


def _turned(base: Scenario, own: float) -> Scenario:
    """Where the loop computes on cores that workers also want, its threads spin for each other: the replay of
    its turns, which adds that time, is to give the measured one."""
    longest = own + base.hand_over + base.sampling
    if base.threads <= 1.0 or turn_seconds(base) <= longest:
        return base
    low, high = FREE, 1.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if turn_seconds(_scaled(base, middle)) > longest else (middle, high)
    return _scaled(base, low)


def _sped(base: Scenario, measured: float) -> Scenario:
    """What makes the replayed step longer than the measured one, too."""
    if base.threads <= 1.0 or step_seconds(base) <= measured:
        return base
    return _slowed(_scaled(base, FREE), measured, lambda value: _scaled(base, value), FREE, 1.0)


def _scaled(base: Scenario, left: float) -> Scenario:
    """So much of what the turns compute is left; of what was seen to spin, that is no longer in it."""
    turns = (replace(one, compute=one.compute * left, launch=one.launch * left) for one in base.turns)
    return replace(base, turns=tuple(turns), spinning=max(0.0, 1 - (1 - base.spinning) / left))


def _slowed(
    base: Scenario, measured: float, at: Callable[[float], Scenario], low: float, high: float
) -> Scenario:
    """The scenario whose value, from ``low`` to ``high``, makes the replay come up to the measured step."""
    if high <= low or step_seconds(base) >= measured:
        return base
    most = step_seconds(at(high))
    if most <= measured:
        return (
            at(high) if most > TELLS * step_seconds(base) else base
        )  # what changes nothing explains nothing
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if step_seconds(at(middle)) > measured else (middle, high)
    return at(low)
