"""Sums over steps, whose rows stand for several each, and 90 % intervals of their means and shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from math import sqrt
from typing import Any

from ..model.code import FunctionSource, Location
from ..model.device import DeviceClockStep, DeviceView, DeviceWindow
from ..model.diagnosis import Step
from ..model.report import BudgetPart
from ..source import code
from ..source.files import below_library, parse_frame, users_path
from .loop_parts import LoopSample, samples_in
from .shares import PART, TRACE


def steps_in(rows: Iterable[Step]) -> int:
    """How many steps the rows stand for."""
    return sum(row.steps for row in rows)


def seconds_in(rows: Iterable[Step], part: str = "wall") -> float:
    """Seconds of all steps, or of a part of them: a field of ``Step``, none where that was not measured."""
    total: float = sum((getattr(row, part) or 0.0) * row.steps for row in rows)
    return total


def share_in(rows: Iterable[Step], part: str) -> float:
    """The share of the steps' time that a part takes; 0 of nothing."""
    rows = list(rows)
    whole = seconds_in(rows)
    return seconds_in(rows, part) / whole if whole > 0 else 0.0


def share_interval(rows: list[Step], part: str) -> tuple[float, float, float]:
    """(value, low, high): the same share with its 90 % interval."""
    parts, walls = ([getattr(row, name) * row.steps for row in rows] for name in (part, "wall"))
    return ratio_interval(parts, walls)


def span_of(rows: list[Step]) -> tuple[float, float]:
    """First and last instant of the steps; zeros without steps."""
    return (rows[0].t - rows[0].wall, rows[-1].t) if rows else (0.0, 0.0)


def mean_in(rows: Iterable[Step], part: str = "wall") -> float:
    """Mean seconds of a step, or of a part of it; 0 without steps."""
    rows = list(rows)
    count = steps_in(rows)
    return seconds_in(rows, part) / count if count else 0.0


SAMPLES_AT_LEAST = 20  # of fewer, a share is a guess: 90 % intervals are wider than 0.18 (chosen)

Z90 = 1.65  # standard errors of a share, for its 90 % interval
BLOCKS = 24  # steps depend on their neighbours; blocks this coarse keep that dependence


def ratio_interval(above: Sequence[float], below: Sequence[float]) -> tuple[float, float, float]:
    """(value, low, high) of sum(above)/sum(below), both in the same order of time: the standard error of a
    ratio of means over blocks of neighbours [Cochran, Sampling Techniques, ch. 6], within their range."""
    total = sum(below)
    if not above or total <= 0:
        return 0.0, 0.0, 0.0
    value, size = sum(above) / total, max(1, len(above) // BLOCKS)
    starts = range(0, len(above) - size + 1, size)
    blocks = [(sum(above[one : one + size]), sum(below[one : one + size])) for one in starts]
    if len(blocks) < 3:
        return value, value, value
    off = sum((part - value * whole) ** 2 for part, whole in blocks) * len(blocks) / (len(blocks) - 1)
    reach = Z90 * sqrt(off) / sum(whole for _, whole in blocks)
    ratios = [value, *(part / whole for part, whole in blocks if whole > 0)]
    return value, max(value - reach, min(ratios)), min(value + reach, max(ratios))


def mean_interval(values: Sequence[float], weights: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high) of values that each stand for ``weights`` observations."""
    return ratio_interval([value * weight for value, weight in zip(values, weights, strict=True)], weights)


UNDIVIDED = "forward and own code"  # what no hook times; stack samples divide it
PARTS = (
    ("data wait", "wait"), (UNDIVIDED, "compute"), ("backward", "backward"),
    ("optimizer", "optimizer"), ("transfer", "copy"), ("checkpoint", "checkpoint"), ("logging", "logging"),
    ("garbage collection", "collect"), ("waiting for other ranks", "exchange"),
)  # fmt: skip

PAUSES = (
    ("idle: data wait", "input_s"), ("idle: launching", "launch_s"), ("idle: after readbacks", "sync_s"),
    ("idle: copies", "transfer_s"), ("idle: allocator", "memory_s"), ("idle: communication", "collective_s"),
    ("idle: saving, logging", "other_s"), ("idle: not explained", "unexplained_s"),
)  # fmt: skip
PHASES = ("forward", "backward", "optimizer")

NAMED_AT_MOST = 6  # parts of the undivided part
BETWEEN = "between epochs"
OTHERS = "other lines of the loop"
UNTIMED = ("forward", "loss", "zero_grad", "user", "line")
ROUNDING = 1e-5  # of the step: less is rounding


def budget_of(
    steps: list[Step],
    device: DeviceView | None,
    step_s: float,
    samples: list[LoopSample],
    between: float = 0.0,
    sources: Sequence[FunctionSource] = (),
) -> list[BudgetPart]:
    """The parts of a step, largest first: by the accelerator's clock where it was read, else by the loop's
    thread, whose forward pass on a device is only the time to queue kernels. ``samples`` are of that thread,
    without those in which it got its batch; ``between`` is the share of time between epochs. ``sources`` are
    the user's functions, whose lines name what no hook times."""
    if device is None or device.clock is None:
        parts = _divided({name: seconds_in(steps, field) for name, field in PARTS}, step_s)
        return _named(parts, _groups(samples, sources), between)
    return _divided(dict(_on_device(device.clock, device.beat)), step_s)


def _on_device(clock: DeviceClockStep, beat: DeviceWindow | None) -> Iterator[tuple[str, float]]:
    """What the device does in a step. Without a profiler's window what lies in a pass may be pauses."""
    if beat is None:
        known = {name: getattr(clock, f"{name}_s") for name in PHASES[1:]}
        yield "forward and its pauses", max(0.0, clock.rest_s - sum(known.values()))
        for name, taken in known.items():
            yield f"{name} and its pauses", taken
    elif beat.backward_s:
        yield from ((name, getattr(beat, f"{name}_s")) for name in PHASES)
    else:
        yield "device busy", beat.busy_s
    yield from ((name, getattr(beat or clock, field, 0.0)) for name, field in PAUSES)


def _divided(seconds: dict[str, float], step_s: float) -> list[BudgetPart]:
    """Parts that never occurred are left out."""
    known = {name: value for name, value in seconds.items() if value > ROUNDING * sum(seconds.values())}
    whole = sum(known.values())
    parts = [BudgetPart(name, value / whole, step_s * value / whole) for name, value in known.items()]
    return sorted(parts, key=lambda part: -part.share)


def _named(parts: list[BudgetPart], groups: dict[str, list[LoopSample]], between: float) -> list[BudgetPart]:
    """The part that no hook times, divided as its stack samples are, and apart from it the time between
    epochs, of which all rows know."""
    rest = next((part for part in parts if part.part == UNDIVIDED), None)
    if rest is None:
        return parts
    between = min(between, rest.share) if between >= TRACE else 0.0
    left = rest.share - between
    seen = Counter({name: samples_in(group) for name, group in groups.items()})
    total = seen.total()
    shares = {BETWEEN: between, UNDIVIDED: left}
    if total >= SAMPLES_AT_LEAST:
        most = seen.most_common(NAMED_AT_MOST)
        named = {name: left * count / total for name, count in most if name != OTHERS}
        named = {name: share for name, share in named.items() if share >= TRACE}
        shares = {BETWEEN: between, **named, OTHERS: left - sum(named.values())}
    scale = rest.s_per_step / rest.share
    divided = [BudgetPart(name, one, scale * one) for name, one in shares.items() if one > ROUNDING]
    return sorted([part for part in parts if part is not rest] + divided, key=lambda part: -part.share)


def _groups(samples: list[LoopSample], sources: Sequence[FunctionSource]) -> dict[str, list[LoopSample]]:
    """Samples that no hook accounts for, by what they are called: the model's calls, or the loop's line with
    what it calls there."""
    lines: dict[int, list[LoopSample]] = {}
    for one in samples:
        if one.part in UNTIMED:
            lines.setdefault(one.line, []).append(one)
    found: dict[str, list[LoopSample]] = {}
    for group in lines.values():
        whole, own = samples_in(group), samples_in(one for one in group if one.own)
        for one in group:
            modelled = not one.own and (own < PART * whole or not one.line)
            name = one.part if modelled else _name(one, sources)
            found.setdefault(name, []).append(one)
    return found


def _name(one: LoopSample, sources: Sequence[FunctionSource]) -> str:
    frames = one.stack.frames
    if one.line and (line := parse_frame(frames[one.depth])) is not None:
        text = code.in_short(sources, line) or (_called(one.called) if one.called is not None else "")
        return f"{line.file.rpartition('/')[2]}:{line.line} {text}".rstrip()
    library, place = below_library(frames)
    if library and place is None:
        return f"code of {library}"
    place = place or next(reversed(users_path(frames)), None)  # the innermost: the loop itself is not known
    if place is not None:
        return f"{place.file.rpartition('/')[2]} {_called(place)}"
    return one.part if not one.own else OTHERS


def _called(place: Location) -> str:
    return place.function.removesuffix(".__call__") + "()"


COSTS_AT_MOST = 192


def spaced(steps: list[Step]) -> list[Step]:
    """At most TURNS_AT_MOST rows of as many steps each, so that rare stalls keep their weight: rows are short
    where an epoch begins or ends."""
    many = min(len(steps), COSTS_AT_MOST)
    if len({step.steps for step in steps}) <= 1 and many == len(steps):
        return steps
    size = room = steps_in(steps)  # in parts of a step, of which each has ``many``
    groups: list[list[tuple[int, Step]]] = [[]]
    for step in steps:
        left = step.steps * many
        while left > 0:
            if not room:
                groups.append([])
                room = size
            part = min(left, room)
            groups[-1].append((part, step))
            left, room = left - part, room - part
    return [_average(group) for group in groups if group]


def _average(group: list[tuple[int, Step]]) -> Step:
    """The mean of steps, each with its weight."""
    means: dict[str, Any] = {}
    for name in (one.name for one in fields(Step) if one.name not in ("t", "steps")):
        known = [(weight, value) for weight, step in group if (value := getattr(step, name)) is not None]
        whole = sum(weight for weight, _ in known)
        means[name] = sum(weight * value for weight, value in known) / whole if whole > 0 else None
    return replace(group[-1][1], **means)
