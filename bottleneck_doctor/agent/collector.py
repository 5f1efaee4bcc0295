"""Notes garbage collections that take long enough to be felt."""

from __future__ import annotations

import gc
from time import monotonic_ns as now

from . import wire
from .hints import Any
from .state import state

NOTED_NS = 200_000
FULL = 2  # the generation whose collection visits every object
_started = [0]
_span: list[Any] = [None]


def watch() -> None:
    """Listen to the collector; it calls back in the thread that it interrupts."""
    gc.callbacks.append(_heard)


def _heard(phase: str, info: dict[str, Any]) -> None:
    try:
        if state.window is not None:
            _name(phase, info.get("generation", 0))
        if phase == "start":
            _started[0] = now()
            return
        taken = now() - _started[0]
        if taken >= NOTED_NS and _started[0]:
            state.row(wire.COLLECTION, _started[0], taken, info.get("generation", 0), thread=state.thread())
    except BaseException:
        pass


def _name(phase: str, generation: int) -> None:
    """In a profiler's window: collections of every object have their name in the trace."""
    span, _span[0] = _span[0], None
    if span is not None:
        span.end()
    if phase == "start" and generation >= FULL and state.window is not None:
        _span[0] = state.window.name("gc", None)
