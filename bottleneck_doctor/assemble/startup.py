"""Divides the start of each training process into its stretches."""

from __future__ import annotations

from itertools import pairwise

from ..agent import wire
from ..model.startup import Startup
from .rows import Diary
from .steps import S

NEVER = 1 << 62


def read_startups(diaries: list[Diary], origin: int) -> list[Startup]:
    """One entry per process that began to train and imported torch under our eyes."""
    return [found for diary in diaries if (found := _read(diary, origin)) is not None]


def _read(diary: Diary, origin: int) -> Startup | None:
    told = diary.first("startup")
    instants = [told.get(name) for name in ("torch_begin_ns", "torch_end_ns", "first_batch_ns")]
    begin, end, batch = (value if isinstance(value, int) else 0 for value in instants)
    learning = (row.t for row in diary.rows if row.kind in (wire.BACKWARD, wire.OPTIMIZER))
    batch = min(batch or NEVER, min(learning, default=NEVER))  # the first step may have no batch of a loader
    if not begin or not end or batch == NEVER:
        return None
    built = [fact.get("at_ns") for fact in diary.facts if fact.get("fact") == "loader"]
    loader = min((at for at in built if isinstance(at, int)), default=batch)
    marks = [origin, diary.start_ns, begin, end, min(loader, batch), batch]
    launch, before, torch, loading, first = (max(0, late - early) * S for early, late in pairwise(marks))
    imports, late = (_seconds(told.get(name)) for name in ("imports_ns", "torch_late_ns"))
    return Startup(diary.pid, launch, before, torch, loading, first, imports, late)


def _seconds(value: object) -> float:
    return max(0, value) * S if isinstance(value, int) else 0.0
