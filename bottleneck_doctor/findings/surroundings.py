"""What several findings ask of the machine around a training: its steady stretch, the memory left."""

from __future__ import annotations

from ..model.diagnosis import Diagnosis
from ..model.instruments import Series

NOTHING = (1.0, 1.0, 1.0)  # a remedy that makes no step faster: it averts a failure, or shortens the run


def span(diagnosis: Diagnosis) -> tuple[float, float]:
    """Begin and end of the steady window, in seconds of the run."""
    steps = diagnosis.steps
    return (steps[0].t - steps[0].wall, steps[-1].t) if steps else (0.0, 0.0)


def readings(series: Series, name: str) -> list[tuple[float, float]]:
    """(instant, value) wherever the value was read."""
    return [(t, v) for t, v in zip(series.t, series.values.get(name, []), strict=False) if v is not None]


def memory_left(diagnosis: Diagnosis) -> float | None:
    """Bytes that the job could still use: what the machine or its own limit leaves, whichever is less."""
    series, machine = diagnosis.profile.series, diagnosis.profile.machine
    available = min((value for _, value in readings(series, "memory_available_bytes")), default=None)
    used = max((value for _, value in readings(series, "job_rss_bytes")), default=None)
    known = [] if available is None else [available]
    if machine.memory_limit_bytes is not None and used is not None:
        known.append(max(0.0, machine.memory_limit_bytes - used))
    return min(known, default=None)
