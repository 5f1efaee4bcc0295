"""What a page draws of a run: what happened when (phases, evaluation, checkpoints, windows of instruments),
call paths, and ranks."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from math import inf
from statistics import fmean

from ..model.diagnosis import Diagnosis, Step
from ..model.instruments import Series
from ..model.loops import Loop
from ..model.picture import CallPath, CallPaths, Curve, Mark, Picture, Timeline
from ..model.profile import Profile
from ..source.files import is_ours, parse_frame
from .hot_lines import role_of
from .inputs import fetches_of
from .ranks import rank_map
from .steady import steps_of
from .steps import mean_in, seconds_in, share_in, steps_in
from .whole_run import evaluations_of

MARKS_AT_MOST = 200  # of one kind
PIXELS = 1000  # marks of one kind that are no further apart than one of these are one


def marks_of(diagnosis: Diagnosis, steps: list[Step]) -> list[Mark]:
    """All marks, by kind and then by time. ``steps`` are all rows of the loop."""
    pixel = diagnosis.profile.run.duration_s / PIXELS
    seen = accumulate(step.steps for step in steps)
    before = [step for step, n in zip(steps, seen, strict=True) if n <= diagnosis.quality.warmup_steps]
    evaluations = evaluations_of(diagnosis.profile, diagnosis.loop)
    return [
        *([Mark("warm-up", _begin(before[0]), before[-1].t)] if before else []),
        *_phases(diagnosis, steps),
        *_joined([mark for loop in evaluations for mark in _passes(loop)], pixel),
        *_joined(_checkpoints(diagnosis), pixel),
        *(
            Mark("instrument", max(0.0, one.start_s), max(0.0, one.end_s), one.instrument)
            for one in diagnosis.profile.windows
        ),
    ]


def _begin(step: Step) -> float:
    """When a row begins, evaluation in its midst apart."""
    return max(0.0, step.t - step.wall * step.steps)


def _phases(diagnosis: Diagnosis, steps: list[Step]) -> list[Mark]:
    """The phases in time. They count the steps that were not set aside; the reported one is known exactly."""
    loop = diagnosis.loop
    flags = loop.table.set_aside if loop is not None else [""] * len(steps)
    seen, kept = 0, []
    for step, flag in zip(steps, flags, strict=True):
        seen += step.steps
        if seen > diagnosis.quality.warmup_steps and not flag:
            kept.append(step)
    ends = [diagnosis.quality.warmup_steps + end for end in accumulate(step.steps for step in kept)]
    marks = []
    for phase in diagnosis.phases:
        mine = [step for step, end in zip(kept, ends, strict=True) if phase.from_step < end <= phase.to_step]
        mine = diagnosis.steps if phase.label == "steady" else mine
        if mine:
            marks.append(Mark("phase", _begin(mine[0]), mine[-1].t, phase.label))
    return marks


def _passes(loop: Loop) -> Iterable[Mark]:
    """Each pass of an evaluation loop: it ends with the last row of that pass that is known."""
    begins = loop.epochs.t
    for place, (begin, following) in enumerate(pairwise([*begins, inf])):
        last = bisect_right(loop.table.t, following) - 1
        end = begin + loop.epochs.build_s[place] + loop.epochs.first_wait_s[place]
        if last >= 0 and begin < loop.table.t[last]:
            end = max(end, loop.table.t[last])
        yield Mark("evaluation", max(0.0, begin), max(0.0, end))


def _checkpoints(diagnosis: Diagnosis) -> list[Mark]:
    """The longest checkpoints of the loop's own thread."""
    loop = diagnosis.loop
    if loop is None:
        return []
    return [
        Mark("checkpoint", max(0.0, t), max(0.0, t + length))
        for operation in diagnosis.profile.operations
        if operation.kind == "checkpoint" and (operation.pid, operation.thread) == (loop.pid, loop.thread)
        for t, length in operation.events
    ]


def _joined(marks: list[Mark], pixel: float) -> list[Mark]:
    """Marks that a screen cannot tell apart are one; the longest are kept."""
    found: list[Mark] = []
    for mark in sorted(marks, key=lambda one: one.begin_s):
        if found and mark.begin_s - found[-1].end_s <= pixel:
            last = found[-1]
            found[-1] = Mark(last.kind, last.begin_s, max(last.end_s, mark.end_s), last.label)
        else:
            found.append(mark)
    longest = sorted(found, key=lambda one: one.begin_s - one.end_s)[:MARKS_AT_MOST]
    return sorted(longest, key=lambda one: one.begin_s)


POINTS_AT_MOST = 1000  # a screen shows no more
LOOSE = 4  # steps to a row, from which the longest row says little of the longest step (chosen)
FETCHES_AT_LEAST = 4  # in a stretch; of fewer, no mean is drawn
STRETCHES = 100  # of the run, for what is known of some batches only; no step for as long is a gap
UNREAD = 2  # consecutive rows of other sensors only, which are read at other instants (chosen)

RATES = (
    ("disk_read_bytes_per_s", "io", "disk_read_bytes"),
    ("job_read_bytes_per_s", "io", "job_read_bytes"),
    ("pressure_cpu_share", "pressure", "pressure_cpu_some_s"),
    ("pressure_io_share", "pressure", "pressure_io_some_s"),
    ("pressure_memory_share", "pressure", "pressure_memory_some_s"),
)
Values = Sequence[float | None]


def course_of(diagnosis: Diagnosis) -> Timeline:
    """Curves of everything that was measured, and marks of events in that time."""
    steps = steps_of(diagnosis.loop.table) if diagnosis.loop is not None else []
    duration = diagnosis.profile.run.duration_s
    curves = [*_step_curves(steps, duration), *_worker_curve(diagnosis, steps), *_machine_curves(diagnosis)]
    known = [one for one in curves if any(value is not None for value in one.value)]
    return Timeline(max([one.t[-1] for one in known] + [duration]), known, marks_of(diagnosis, steps))


def _step_curves(steps: list[Step], duration: float) -> list[Curve]:
    """The mean of the steps that ended in each stretch, and the longest where few steps share a row: else the
    finely sampled part of a long run would look rough next to a smooth rest."""
    mean, high = Curve("step_time_s", "step"), Curve("step_time_high_s", "step")
    wait = Curve("data_wait_share", "wait")
    length = max(duration, steps[-1].t if steps else 0.0)
    ended = None
    for group in _buckets(steps, length / POINTS_AT_MOST):
        begin, end = group[0].t - group[0].wall * group[0].steps, group[-1].t
        for curve, value in (
            (mean, mean_in(group)),
            (high, max(step.wall for step in group) if steps_in(group) <= LOOSE * len(group) else None),
            (wait, share_in(group, "wait")),
        ):
            if ended is not None and begin - ended > length / STRETCHES:
                _lift(curve, ended, begin, value)
            curve.t.append(max(0.0, (begin + end) / 2))
            curve.value.append(value)
        ended = end
    return [mean, high, wait]


def _lift(curve: Curve, begin: float, end: float, value: float | None) -> None:
    """Interrupts the line at an evaluation, a checkpoint or a pause: no step ran there. A single point
    between two of them is still drawn as a line."""
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
    found: dict[int, list[float]] = {}
    for t, wall in zip(table.t, table.wall_s, strict=True):
        found.setdefault(int(t // width) if width > 0 else 0, []).append(wall)
    means = {at: fmean(walls) for at, walls in found.items() if len(walls) >= FETCHES_AT_LEAST}
    ended, paused = None, 0.0
    for group in _buckets(steps, width):
        begin = group[0].t - group[0].wall * group[0].steps
        paused = max(paused, begin - ended if ended is not None else 0.0)
        mean = means.get(int(group[0].t // width)) if width > 0 else None
        wall = seconds_in(group)
        if mean is not None and wall > 0:
            share = min(1.0, mean * steps_in(group) / (workers * wall))
            if curve.t and paused > width:
                _lift(curve, curve.t[-1], begin, share)
            curve.t.append(max(0.0, group[-1].t - wall / 2))
            curve.value.append(share)
            paused = 0.0
        ended = group[-1].t
    return [curve]


def _machine_curves(diagnosis: Diagnosis) -> list[Curve]:
    """What the sensors saw: rates of counters, each at the middle of two readings, and gauges."""
    series = diagnosis.profile.series
    middles = [(before + t) / 2 for before, t in pairwise(series.t)]

    def rates(name: str) -> Values | None:
        return _rates(series, name)[1:] if name in series.values else None

    busy, idle, iowait = (rates(f"cpu_{name}_s") for name in ("busy", "idle", "iowait"))
    job, ranks = rates("job_cpu_s"), rates("other_ranks_cpu_s")
    known = job if ranks is None else _combined(lambda a, b: a + b, job, ranks)
    waiting = _combined(lambda part, *rest: part / max(part + sum(rest), 1e-12), iowait, busy, idle)
    curves = [
        _curve("job_cores", "cpu", middles, job),
        _curve("other_cores", "cpu", middles, _combined(lambda a, b: max(0.0, a - b), busy, known)),
        _curve("iowait_share", "io", middles, waiting),
    ]
    for name, group, source in RATES:
        curves.append(_curve(name, group, middles, rates(source), 1.0 if name.endswith("share") else inf))
    curves.append(_curve("job_rss_bytes", "memory", series.t, _held(series.values.get("job_rss_bytes", []))))
    device = diagnosis.device
    if device is not None and device.facts.driver is not None:
        readings = _held(series.values.get(f"gpu{device.facts.driver}_busy_share", []))
        curves.append(_curve("gpu_busy_share", "gpu", series.t, readings, 1.0))
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
            rows = 1 + unread if unread <= UNREAD else 1
            found[-rows:] = [(value - last[1]) / (t - last[0])] * rows
        last, unread = (t, value), 0
    return found


def _combined(combine: Callable[..., float], *columns: Values | None) -> Values | None:
    """Row by row, unknown where one of them is; None where a column was not measured at all."""
    if any(one is None for one in columns):
        return None
    rows = zip(*(one for one in columns if one is not None), strict=True)
    return [None if None in row else combine(*row) for row in rows]


def _held(values: Values) -> list[float | None]:
    """A gauge that was not read in a row or two is what it was."""
    found: list[float | None] = []
    unread = 0
    for value in values:
        unread = unread + 1 if value is None else 0
        found.append(found[-1] if value is None and found and unread <= UNREAD else value)
    return found


def _curve(name: str, group: str, t: list[float], values: Values | None, at_most: float = inf) -> Curve:
    """At most as many points as can be seen, means of neighbours; a gap stays one."""
    if not values:
        return Curve(name, group)
    capped = [None if value is None else min(at_most, max(0.0, value)) for value in values]
    places = range(0, len(capped), -(-len(capped) // POINTS_AT_MOST))
    groups = [[one for one in capped[at : at + places.step] if one is not None] for at in places]
    return Curve(name, group, [t[at] for at in places], [fmean(one) if one else None for one in groups])


ROLES = ("trainer", "worker", "other")
MOST_PATHS = 600  # of all roles together, the heaviest: more boxes than a screen has room for
MOST_FRAMES = 128  # of one path: deeper recursion is a wall of equal boxes

Frames = tuple[str, ...]


def call_paths(profile: Profile) -> list[CallPaths]:
    """Equal paths of several processes are one; roles that were not seen are left out."""
    seen: Counter[tuple[str, Frames]] = Counter()
    awake: Counter[tuple[str, Frames]] = Counter()
    samples: Counter[str] = Counter()
    unknown = set()
    for stack in profile.stacks:
        # Without our own hooks, and without what is no frame.
        frames = [frame for frame in stack.frames if parse_frame(frame) is not None and not is_ours(frame)]
        if (cut := len(frames) - MOST_FRAMES) > 0:
            half = MOST_FRAMES // 2
            frames = [*frames[:half], f"{cut} frames left out (<recursion>:0)", *frames[-half:]]
        key = (role_of(profile, stack), tuple(frames))
        samples[key[0]] += stack.count
        seen[key] += stack.count
        awake[key] += stack.running or 0
        if stack.running is None:
            unknown.add(key)
    kept = sorted((key for key in seen if key[1]), key=lambda key: (-seen[key], -awake[key], key))
    paths = {
        key: CallPath(list(key[1]), seen[key], None if key in unknown else awake[key])
        for key in kept[:MOST_PATHS]
    }
    return [
        CallPaths(role, samples[role], [path for (whose, _), path in paths.items() if whose == role])
        for role in ROLES
        if samples[role]
    ]


def picture_of(diagnosis: Diagnosis) -> Picture:
    """Total: any diagnosis has a picture, which may be empty."""
    profile = diagnosis.profile
    return Picture(course_of(diagnosis), call_paths(profile), rank_map(profile))
