"""Follows what torch.compile has compiled so far, where it is in use: frames, graph breaks, seconds."""

from __future__ import annotations

import sys
from time import monotonic_ns as now

from . import wire
from .guard import quiet
from .pulse import state
from .types import Any

_last = [0]


def compiling() -> bool:
    """Whether torch.compile has compiled anything: then hooks must not come and go."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and dynamo.counters.get("frames"))


@quiet
def note() -> None:
    """At a close look: a row when something was compiled since the last one."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return
    frames = dynamo.counters.get("frames")
    total = frames.get("total", 0) if frames else 0
    if total == _last[0]:
        return
    _last[0] = total
    breaks = sum((dynamo.counters.get("graph_break") or {}).values())
    seconds = sum(dynamo.compilation_time_metrics.get("_compile.compile_inner") or [0.0])
    state.row(wire.COMPILED, now(), 0, total, breaks, int(seconds * 1e9), thread=state.thread())
