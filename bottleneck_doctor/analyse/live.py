"""What a run does right now: its pace between two looks, and what the machine did in the last seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from ..model.instruments import Sample, Series
from ..model.live import PacePoint, Progress, Surroundings
from ..model.run import Machine
from .host import FOREIGN_NOISE_CORES, rate
from .steady import WARMUP_SHARE
from .verdict import STEPS_AT_LEAST

RECENT_NS = 10_000_000_000
READINGS_AT_LEAST = 3  # of each sensor: late in a long run they are half a minute apart
ABREAST = 0.9  # of the furthest one's steps: the others are no ranks of the same training (ours)
STALLED_S = 10.0  # without a batch, and
STALLED_STEPS = 10  # times a step's usual time: then something hangs, or evaluates, or saves (ours)
ENOUGH_STEPS = ceil(STEPS_AT_LEAST / (1 - WARMUP_SHARE))  # of a run, for a verdict that can say anything
PRESSURES = {"cpu": "pressure_cpu_some_s", "io": "pressure_io_some_s", "memory": "pressure_memory_some_s"}


def ranks_of(progress: Sequence[Progress]) -> list[Progress]:
    """The processes that train together, the furthest first."""
    return [one for one in progress if one.steps >= ABREAST * progress[0].steps]


def pace(before: Iterable[Progress], after: Sequence[Progress]) -> PacePoint:
    """Between two looks: the step of the slowest rank, and the data wait of the one that waits most."""
    earlier = {one.pid: one for one in before}
    moved = [
        (earlier[one.pid], one)
        for one in ranks_of(after)
        if one.pid in earlier and one.steps > earlier[one.pid].steps
    ]
    spans = [(then, one, one.last_ns - then.last_ns) for then, one in moved if one.last_ns > then.last_ns]
    if not spans:
        return PacePoint(None, None)
    return PacePoint(
        max(span / (one.steps - then.steps) / 1e9 for then, one, span in spans),
        max(min(1.0, max(0.0, (one.wait_ns - then.wait_ns) / span)) for then, one, span in spans),
    )


def beginning(one: Progress) -> Progress:
    """A process as it was when its first batch had come: the look that nobody took."""
    return Progress(one.pid, 1, 0, 0, one.first_ns, one.first_ns)


def is_stalled(silent_s: float, step_s: float | None) -> bool:
    """Whether no batch came for so long that it is worth saying."""
    return silent_s > max(STALLED_S, STALLED_STEPS * (step_s or 0.0))


def recent(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the last seconds, a few of each sensor at least."""
    newest = max((sample.t_ns for sample in samples), default=0)
    left: dict[str, int] = {}
    kept = []
    for sample in reversed(samples):
        left[sample.sensor] = left.get(sample.sensor, READINGS_AT_LEAST) - 1
        if sample.t_ns >= newest - RECENT_NS or left[sample.sensor] >= 0:
            kept.append(sample)
    return kept[::-1]


def surroundings(series: Series, machine: Machine) -> Surroundings:
    """The machine over the time of the series; what was not measured is None or left out."""
    if not series.t:
        return Surroundings(machine.cores)
    span = (series.t[0], series.t[-1])
    busy, job = (rate(series, name, *span) for name in ("cpu_busy_s", "job_cpu_s"))
    foreign = None if busy is None or job is None else max(0.0, busy - job - FOREIGN_NOISE_CORES)
    pressures = {name: rate(series, counter, *span) for name, counter in PRESSURES.items()}
    numbers = range(len([name for name in series.values if name.endswith("_memory_used_bytes")]))
    return Surroundings(
        cores=machine.cores,
        job_cores=job,
        foreign_cores=foreign,
        pressure={name: min(1.0, value) for name, value in pressures.items() if value is not None},
        gpu_busy=[busy for n in numbers if (busy := _last(series, f"gpu{n}_busy_share")) is not None],
        gpu_memory=[share for n in numbers if (share := _memory(series, n)) is not None],
    )


def _memory(series: Series, number: int) -> float | None:
    used = _last(series, f"gpu{number}_memory_used_bytes")
    whole = _last(series, f"gpu{number}_memory_bytes")
    return used / whole if used is not None and whole else None


def _last(series: Series, name: str) -> float | None:
    return next((value for value in reversed(series.values.get(name, [])) if value is not None), None)
