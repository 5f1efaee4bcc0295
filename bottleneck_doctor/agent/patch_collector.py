"""Notes garbage collections that take long enough to be felt."""

from __future__ import annotations

import gc
from time import monotonic_ns as now

from . import wire
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

NOTED_NS = 200_000
_started = [0]


def watch() -> None:
    """Listen to the collector; it calls back in the thread that it interrupts."""
    gc.callbacks.append(_heard)


def _heard(phase: str, info: dict[str, Any]) -> None:
    try:
        if phase == "start":
            _started[0] = now()
            return
        taken = now() - _started[0]
        if taken >= NOTED_NS and _started[0]:
            state.row(wire.COLLECTION, _started[0], taken, info.get("generation", 0), thread=state.thread())
    except BaseException:
        pass
