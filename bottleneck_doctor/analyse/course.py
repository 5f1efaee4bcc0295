"""The course of a run: how the step, the waiting and the machine changed from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from ..model.diagnosis import Diagnosis, Step
from ..model.fetches import FetchTable
from ..model.instruments import Series
from ..model.picture import Curve, Timeline
from .inputs import fetches_of
from .marks import marks_of
from .steady import steps_of

POINTS_AT_MOST = 1000  # a screen shows no more
LOOSE = 4  # steps to a row, from which the longest row says little of the longest step (ours)
FETCHES_AT_LEAST = 4  # in a stretch, or their mean says nothing
APART = 0.01  # of the run between two steps is seen as a gap (ours)
STRETCHES = 100  # of the run, for what is known of some batches only
UNREAD = 2  # rows in a row that hold other sensors' readings only: their clocks are not the same (ours)

RATES = (
    ("disk_read_bytes_per_s", "io", "disk_read_bytes"),
    ("job_read_bytes_per_s", "io", "job_read_bytes"),
    ("pressure_cpu_share", "pressure", "pressure_cpu_some_s"),
    ("pressure_io_share", "pressure", "pressure_io_some_s"),
    ("pressure_memory_share", "pressure", "pressure_memory_some_s"),
)
COUNTERS = ["cpu_busy_s", "cpu_idle_s", "cpu_iowait_s", "job_cpu_s", *(source for _, _, source in RATES)]

Rates = dict[str, list[float | None]]


def course_of(diagnosis: Diagnosis) -> Timeline:
    """Curves of everything that was measured, and marks of what happened meanwhile."""
    steps, duration = all_steps(diagnosis), diagnosis.profile.run.duration_s
    curves = [*_step_curves(steps, duration), *_worker_curve(diagnosis, steps), *_machine_curves(diagnosis)]
    known = [one for one in curves if any(value is not None for value in one.value)]
    ends = [one.t[-1] for one in known] + [duration]
    return Timeline(max(ends), known, marks_of(diagnosis, steps))


def all_steps(diagnosis: Diagnosis) -> list[Step]:
    """Every row of the loop that the report is about, warm-up and all."""
    if diagnosis.loop is not None:
        return steps_of(diagnosis.loop.table)
    return []


def _step_curves(steps: list[Step], duration: float) -> list[Curve]:
    """Means of the steps that ended in each stretch, and the longest of them: that is known where few share a
    row, or the part of a long run that was seen closely would look rough beside a smooth rest."""
    mean, high = Curve("step_time_s", "step"), Curve("step_time_high_s", "step")
    wait = Curve("data_wait_share", "wait")
    length = max(duration, steps[-1].t if steps else 0.0)
    ended = None
    for group in _buckets(steps, length / POINTS_AT_MOST):
        count = sum(step.steps for step in group)
        wall = sum(step.wall * step.steps for step in group)
        waited = sum(step.wait * step.steps for step in group)
        begin, end = group[0].t - group[0].wall * group[0].steps, group[-1].t
        for curve, value in (
            (mean, wall / count),
            (high, max(step.wall for step in group) if count <= LOOSE * len(group) else None),
            (wait, min(1.0, waited / wall) if wall > 0 else None),
        ):
            if ended is not None and begin - ended > APART * length:
                _lift(curve, ended, begin, value)
            curve.t.append(max(0.0, (begin + end) / 2))
            curve.value.append(value)
        ended = end
    return [mean, high, wait]


def _lift(curve: Curve, begin: float, end: float, value: float | None) -> None:
    """Lift the pen over an evaluation, a checkpoint or a sleep: no step went on there that a line could join.
    What stands alone between two of them still is a line."""
    curve.t.extend([begin, (begin + end) / 2, end])
    curve.value.extend([curve.value[-1], None, value])


def _buckets(steps: list[Step], width: float) -> Iterable[list[Step]]:
    """Neighbours that ended in the same stretch of time, and never more than there may be points."""
    group: list[Step] = []
    for step in steps:
        if group and (width <= 0 or step.t // width != group[0].t // width):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _worker_curve(diagnosis: Diagnosis, steps: list[Step]) -> list[Curve]:
    """The share of the workers' time inside fetches: what a batch took them, times the batches that the loop
    took in that time."""
    workers = diagnosis.loader.num_workers if diagnosis.loader is not None else 0
    table = fetches_of(diagnosis.profile, diagnosis.loader.key) if diagnosis.loader is not None else None
    if not workers or table is None or not table.t or not steps or diagnosis.loop is None:
        return []
    curve = Curve("worker_busy_share", "cpu")
    width = max(diagnosis.profile.run.duration_s, steps[-1].t) / STRETCHES
    means = _mean_walls(table, width)
    ended, paused = None, 0.0
    for group in _buckets(steps, width):
        begin = group[0].t - group[0].wall * group[0].steps
        paused = max(paused, begin - ended if ended is not None else 0.0)
        mean = means.get(int(group[0].t // width)) if width > 0 else None
        wall = sum(step.wall * step.steps for step in group)
        if mean is not None and wall > 0:
            share = min(1.0, mean * sum(step.steps for step in group) / (workers * wall))
            if curve.t and paused > APART * STRETCHES * width:
                _lift(curve, curve.t[-1], begin, share)
            curve.t.append(max(0.0, group[-1].t - wall / 2))
            curve.value.append(share)
            paused = 0.0
        ended = group[-1].t
    return [curve]


def _mean_walls(table: FetchTable, width: float) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for t, wall in zip(table.t, table.wall_s, strict=True):
        found.setdefault(int(t // width) if width > 0 else 0, []).append(wall)
    return {
        place: sum(walls) / len(walls) for place, walls in found.items() if len(walls) >= FETCHES_AT_LEAST
    }


def _machine_curves(diagnosis: Diagnosis) -> list[Curve]:
    """What the sensors saw: rates of counters between two readings, and gauges."""
    series = diagnosis.profile.series
    rates = {name: _rates(series, name) for name in COUNTERS if name in series.values}
    busy, job = rates.get("cpu_busy_s"), rates.get("job_cpu_s")
    curves = [
        _curve(series, "job_cores", "cpu", job),
        _curve(series, "other_cores", "cpu", _both(lambda a, b: max(0.0, a - b), busy, job)),
        _curve(series, "iowait_share", "io", _iowait(rates)),
    ]
    for name, group, source in RATES:
        at_most = 1.0 if name.endswith("share") else float("inf")
        curves.append(_curve(series, name, group, rates.get(source), at_most))
    curves.append(_gauge(series, "job_rss_bytes", "memory", "job_rss_bytes"))
    device = diagnosis.device
    if device is not None and device.facts.driver is not None:
        curves.append(_gauge(series, "gpu_busy_share", "gpu", f"gpu{device.facts.driver}_busy_share", 1.0))
    return [one for one in curves if one.t]


def _rates(series: Series, name: str) -> list[float | None]:
    """Growth per second of a counter from one reading to the next, for every row between them. One that was
    not read for long, or went backwards, is a gap: its machine was suspended, or it began anew."""
    found: list[float | None] = []
    last: tuple[float, float] | None = None
    unread = 0
    for t, value in zip(series.t, series.values[name], strict=True):
        found.append(None)
        if value is None:
            unread += 1
            continue
        if last is not None and value >= last[1] and t > last[0]:
            rate = (value - last[1]) / (t - last[0])
            rows = 1 + unread if unread <= UNREAD else 1
            found[-rows:] = [rate] * rows
        last, unread = (t, value), 0
    return found


def _both(
    combine: Callable[[float, float], float],
    one: Sequence[float | None] | None,
    other: Sequence[float | None] | None,
) -> list[float | None] | None:
    if one is None or other is None:
        return None
    return [
        combine(a, b) if a is not None and b is not None else None for a, b in zip(one, other, strict=True)
    ]


def _iowait(rates: Rates) -> list[float | None] | None:
    """The share of the machine's time that processors waited for disks with nothing else to do."""
    waiting, busy, idle = (rates.get(f"cpu_{name}_s") for name in ("iowait", "busy", "idle"))
    total = _both(lambda a, b: a + b, _both(lambda a, b: a + b, busy, idle), waiting)
    return _both(lambda part, whole: part / whole if whole > 0 else 0.0, waiting, total)


def _curve(
    series: Series, name: str, group: str, rates: Sequence[float | None] | None, at_most: float = float("inf")
) -> Curve:
    """Rates, each at the middle of what it is about."""
    if rates is None:
        return Curve(name, group)
    middles = [(before + t) / 2 for before, t in pairwise(series.t)]
    return _thinned(Curve(name, group, middles, [_capped(rate, at_most) for rate in rates[1:]]))


def _gauge(series: Series, name: str, group: str, source: str, at_most: float = float("inf")) -> Curve:
    values = series.values.get(source)
    if values is None:
        return Curve(name, group)
    return _thinned(Curve(name, group, list(series.t), [_capped(value, at_most) for value in _held(values)]))


def _held(values: Sequence[float | None]) -> list[float | None]:
    """A gauge that was not read in a row or two is what it was."""
    found: list[float | None] = []
    unread = 0
    for value in values:
        unread = unread + 1 if value is None else 0
        found.append(found[-1] if value is None and found and unread <= UNREAD else value)
    return found


def _capped(value: float | None, at_most: float) -> float | None:
    return None if value is None else min(at_most, max(0.0, value))


def _thinned(curve: Curve) -> Curve:
    """Means of neighbours, where there are more points than can be seen; a gap stays one."""
    every = -(-len(curve.t) // POINTS_AT_MOST)
    if every <= 1:
        return curve
    places = range(0, len(curve.t), every)
    groups = [
        [value for value in curve.value[place : place + every] if value is not None] for place in places
    ]
    return Curve(
        curve.name,
        curve.group,
        [curve.t[place] for place in places],
        [sum(group) / len(group) if group else None for group in groups],
    )
