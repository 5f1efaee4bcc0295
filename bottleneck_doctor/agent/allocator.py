"""Reads the caching allocator's books now and then, and counts who empties its cache."""

from __future__ import annotations

import sys
from time import monotonic_ns as now

from . import hearing, wire
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

EVERY_NS = 1_000_000_000
BINDINGS = ("_cuda_emptyCache", "_xpu_emptyCache", "_accelerator_emptyCache")  # behind the public functions


class _Books:
    """When they were read last, how often the cache was emptied, and whether they can be read."""

    last_ns = 0
    emptied = 0
    refused = False


def note() -> None:
    """At a look: a row, if the last one is a second old. Torch makes a table of all its counters for us."""
    here = now()
    if _Books.refused or here - _Books.last_ns < EVERY_NS:
        return
    _Books.last_ns = here
    try:
        retries, requests, peak, reserved = state.accelerator.memory()
    except Exception:  # this device, or this version of torch, has no such books
        _Books.refused = True
        return
    emptied = wire.NOTHING if hearing.ears.compiled else _Books.emptied
    state.row(
        wire.ALLOCATOR, here, now() - here, retries, requests, emptied, peak, reserved, thread=state.thread()
    )
    state.hooks_ns += now() - here


def patch(torch: Any) -> None:
    """Count every emptying from now on, until graphs are compiled: they may hold these."""
    for name in BINDINGS:
        hearing.hook(torch._C, name, _counted, hearing.ALWAYS)


def _counted(original: Callable[..., Any]) -> Callable[..., Any]:
    from .patch_waits import noted  # comes with an accelerator, as we do

    def empty(*args: Any, **kwargs: Any) -> Any:
        _Books.emptied += 1
        return noted("empty_cache", sys._getframe(1), original, *args, **kwargs)

    return empty
