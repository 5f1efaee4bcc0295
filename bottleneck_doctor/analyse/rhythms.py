"""Finds stalls that come back: steps much longer than their neighbours at a regular distance, and why."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from operator import mul
from statistics import fmean, median

from ..model.derived import Drift, Rhythm
from ..model.diagnosis import Step
from ..model.instruments import Operation
from ..model.loops import Loop
from ..model.profile import Profile
from .steady import blocks_of, fit_line, is_straight
from .steps import seconds_in
from .whole_run import evaluations_of

LONG = 2.0  # median steps on top of the usual one, from which a step is a stall (ours)
UNUSUAL = 6.0  # median deviations that it must lie outside of, besides: a wide spread is no stall (ours)
RARE = 5  # steps apart at least: what comes more often is the shape of the steps (ours)
COUNT_AT_LEAST = 4  # stalls, or nothing is known of their distance (ours)
REGULAR = 0.7  # of the distances are alike, within LOOSE of their median (ours)
LOOSE = 0.15
PARTS = ("wait", "compute", "backward", "optimizer", "checkpoint", "logging", "collect", "copy")
KINDS = {"checkpoint": "checkpoint", "logging": "logging", "collect": "collection", "copy": "copy"}


def find_rhythms(profile: Profile, loop: Loop | None, steps: list[Step]) -> list[Rhythm]:
    """Everything that comes back, the most expensive first."""
    groups: dict[str, list[int]] = {}
    usual = {name: median(getattr(step, name) for step in steps) for name in PARTS} if steps else {}
    for place in _stalls(steps):
        part = max(PARTS, key=lambda name: getattr(steps[place], name) - usual[name])
        groups.setdefault(part, []).append(place)
    found = [_rhythm(profile, loop, steps, part, places) for part, places in groups.items()]
    known = [one for one in [*found, _evaluations(profile, loop)] if one is not None]
    return sorted(known, key=lambda one: -one.share)


def _stalls(steps: list[Step]) -> list[int]:
    """Rows that hold a step much longer than usual."""
    if len(steps) < 2 * RARE:
        return []
    walls = [step.wall for step in steps]
    usual = median(walls)
    spread = median(abs(wall - usual) for wall in walls)
    return [
        place
        for place, step in enumerate(steps)
        if (step.wall - usual) * step.steps > LONG * usual and step.wall - usual > UNUSUAL * spread
    ]


def _rhythm(
    profile: Profile, loop: Loop | None, steps: list[Step], part: str, places: list[int]
) -> Rhythm | None:
    at = _positions(loop, steps)
    every = regular_distance([at[place] for place in places], max(steps[place].steps for place in places))
    if every is None:
        return None
    usual, rows = median(step.wall for step in steps), [steps[place] for place in places]
    extra = [(row.wall - usual) * row.steps for row in rows]
    whole = seconds_in(steps)
    if part == "wait" and loop is not None and _at_epochs(loop, rows):
        part = "epoch start"
    call = _call(profile, loop, KINDS.get(part, ""), rows)
    return Rhythm(
        part=part,
        count=len(places),
        every_steps=every,
        each_s=fmean(extra),
        share=sum(extra) / whole,
        cpu_s=_extra(steps, rows, "cpu"),
        queue_s=_extra(steps, rows, "queue"),
        name=call.name if call is not None else "",
        location=call.location if call is not None else None,
    )


def _positions(loop: Loop | None, steps: list[Step]) -> list[int]:
    """How many steps the loop had taken at each row, those that were set aside included."""
    if loop is None or not loop.table.t:
        return list(accumulate(step.steps for step in steps))
    counts = list(accumulate(loop.table.steps))
    return [counts[min(bisect_left(loop.table.t, step.t), len(counts) - 1)] for step in steps]


def regular_distance(at: Sequence[int], resolution: int) -> float | None:
    """Steps from one to the next, None where they come now and then; a row may hide ``resolution`` steps."""
    distances = [later - one for one, later in pairwise(at)]
    if len(at) < COUNT_AT_LEAST:
        return None
    usual = median(distances)
    loose = max(LOOSE * usual, resolution)
    alike = sum(abs(one - usual) <= loose for one in distances)
    return usual if alike >= REGULAR * len(distances) and usual >= max(RARE, 2 * resolution) else None


def _extra(steps: list[Step], rows: list[Step], name: str) -> float | None:
    """How much more of the thread's CPU, or of waiting for one, each of these rows has than is usual."""
    known = [value for step in steps if (value := getattr(step, name)) is not None]
    if not known or any(getattr(row, name) is None for row in rows):
        return None
    usual = median(known)
    return max(0.0, fmean((getattr(row, name) - usual) * row.steps for row in rows))


def _at_epochs(loop: Loop, rows: list[Step]) -> bool:
    """Whether an epoch begins in most of these rows."""
    begins = sorted(loop.epochs.t)
    inside = [bisect_left(begins, row.t - row.wall * row.steps) < bisect_right(begins, row.t) for row in rows]
    return sum(inside) >= REGULAR * len(rows)


def _call(profile: Profile, loop: Loop | None, kind: str, rows: list[Step]) -> Operation | None:
    """The call of that kind that took most of the time within these rows."""
    spans = [(row.t - row.wall * row.steps, row.t) for row in rows]
    mine = [
        one
        for one in profile.operations
        if loop is not None and one.kind == kind and (one.pid, one.thread) == (loop.pid, loop.thread)
    ]

    def within(operation: Operation) -> float:
        return sum(took for t, took in operation.events if any(begin <= t <= end for begin, end in spans))

    return max(mine, key=within, default=None)


def _evaluations(profile: Profile, loop: Loop | None) -> Rhythm | None:
    """Evaluation between training steps, by the loops that did it."""
    if loop is None or not loop.table.t:
        return None
    longest = next(iter(evaluations_of(profile, loop)), None)
    if longest is None or not longest.epochs.t:
        return None
    counts = [0, *accumulate(loop.table.steps)]
    at = [counts[bisect_left(loop.table.t, t)] for t in longest.epochs.t]
    every = regular_distance(at, 1)
    if every is None:
        return None
    both = loop.wall_s + longest.wall_s
    loader = next((one for one in profile.loaders if one.key == longest.loader), None)
    return Rhythm(
        part="evaluation",
        count=len(at),
        every_steps=every,
        each_s=longest.wall_s / len(at),
        share=longest.wall_s / both if both > 0 else 0.0,
        name=loader.dataset if loader is not None else "",
        location=loader.location if loader is not None else None,
    )


GROWN = 1.2  # last step over first, by the line (ours)
RISING = 0.85  # of all pairs of blocks: the later one is slower (ours; 0.5 is noise, 0.75 a single step up)
CLEAR = 4.0  # mean misfits of the line that the growth must exceed (ours)
MATTERS = 0.1  # of the step that the growth must be (ours)
BLOCKS_AT_LEAST = 8
OWN = ("compute", "backward", "optimizer", "copy")  # which the replay knows as one


def find_drift(steps: list[Step]) -> Drift | None:
    """The growth of the step over the steady window, None where it does not grow steadily, or does so as it
    has ever more to do."""
    if not steps or _do_more(steps):
        return None
    cpu = [step.cpu for step in steps if step.cpu is not None]
    fetched = [step.wait_cpu for step in steps if step.wait_cpu is not None]
    if len(cpu) == len(fetched) == len(steps):
        both = [one + other for one, other in zip(cpu, fetched, strict=True)]
        if _grows(both, steps):
            return _drift(both, {"compute": cpu, "wait": fetched}, steps)
    walls = [step.wall for step in steps]
    if not _grows(walls, steps):
        return None
    parts = {name: [float(getattr(step, name)) for step in steps] for name in PARTS}
    return _drift(walls, parts, steps)


def _do_more(steps: list[Step]) -> bool:
    """Whether the backward pass grows with the rest, as it does where episodes or sequences get longer."""
    counts = [step.steps for step in steps]
    parts = ([getattr(step, name) for step in steps] for name in ("compute", "backward"))
    lines = [fit_line(blocks_of(part, counts)) for part in parts]
    return all(one.rising >= RISING and one.last >= GROWN * max(1e-9, one.first) for one in lines)


def _grows(values: list[float], steps: list[Step]) -> bool:
    blocks = blocks_of(values, [step.steps for step in steps])
    if len(blocks.levels) < BLOCKS_AT_LEAST or not is_straight(blocks):
        return False
    line = fit_line(blocks)
    grown = line.last - line.first
    clear = max(CLEAR * line.misfit / len(blocks.levels), MATTERS * median(step.wall for step in steps))
    return line.rising >= RISING and line.last >= GROWN * max(0.0, line.first) and grown > clear


def _drift(values: list[float], parts: dict[str, list[float]], steps: list[Step]) -> Drift:
    counts = [step.steps for step in steps]
    whole = fit_line(blocks_of(values, counts))
    lines = {name: fit_line(blocks_of(part, counts)) for name, part in parts.items()}
    part = max(lines, key=lambda name: lines[name].last - lines[name].first)
    first = max(0.0, lines[part].first)
    together = [name for name in parts if name == part or (name in OWN and part in OWN)]
    means = {name: sum(map(mul, parts[name], counts)) / sum(counts) for name in together}
    base = sum(means.values())
    left = 1 - max(0.0, means[part] - first) / base if base > 0 else 1.0
    return Drift(max(0.0, whole.first), whole.last, part, first, lines[part].last, left, sum(counts))
