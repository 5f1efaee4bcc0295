"""Reads the caching allocator's books now and then, and notes how often its cache was emptied."""

from __future__ import annotations

from time import monotonic_ns as now

from . import hearing, wire
from .pulse import state

EVERY_NS = 1_000_000_000


class _LastReading:
    """When they were read last, and whether they can be read."""

    last_ns = 0
    refused = False


def note() -> None:
    """At a look: a row, if the last one is a second old. Torch makes a table of all its counters for us."""
    here = now()
    if _LastReading.refused or here - _LastReading.last_ns < EVERY_NS:
        return
    _LastReading.last_ns = here
    try:
        retries, requests, peak, reserved = state.accelerator.memory()
    except Exception:  # this device, or this version of torch, has no such books
        _LastReading.refused = True
        return
    emptied = wire.NOTHING if hearing.ears.compiled else state.emptied
    state.row(
        wire.ALLOCATOR, here, now() - here, retries, requests, emptied, peak, reserved, thread=state.thread()
    )
    state.hooks_ns += now() - here
