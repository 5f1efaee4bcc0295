"""Divides the steady step into named parts that sum to one."""

from __future__ import annotations

from collections import Counter

from ..model.derived import DeviceClockStep, DeviceStepBreakdown, DeviceView
from ..model.diagnosis import Step
from ..model.report import BudgetPart
from .loop_parts import LoopSample, samples_in
from .steps import SAMPLES_AT_LEAST, seconds_in, steps_in

UNDIVIDED = "forward and own code"  # what no hook times; stack samples divide it
PARTS = (
    ("data wait", "wait"), (UNDIVIDED, "compute"), ("backward", "backward"),
    ("optimizer", "optimizer"), ("transfer", "copy"), ("checkpoint", "checkpoint"), ("logging", "logging"),
    ("garbage collection", "collect"), ("waiting for other ranks", "exchange"),
)  # fmt: skip

DEVICE_PARTS = (
    ("device busy", "busy_s"), ("idle: data wait", "input_s"), ("idle: launching", "launch_s"),
    ("idle: after readbacks", "sync_s"), ("idle: transfer", "transfer_s"), ("idle: allocator", "memory_s"),
    ("idle: other ranks", "collective_s"), ("idle: saving, logging", "other_s"),
)  # fmt: skip

CLOCK_PARTS = (
    ("busy, or short of work", "rest_s"), ("idle: data wait", "input_s"),
    ("idle: transfer", "transfer_s"), ("idle: saving, logging", "other_s"),
)  # fmt: skip

NAMED_AT_MOST = 6  # parts of the undivided part, and
NAMED_AT_LEAST = 0.02  # of the step each: the others are one part together (ours)
OTHERS = "other lines of the loop"
CALLS = 0.2  # of a line's samples outside of the model: a function that does more than call it (ours)
UNTIMED = ("forward", "loss", "zero_grad", "user", "line")
LITTLE = 1e-5  # of the step: what rounding leaves is no part of it


def budget_of(
    steps: list[Step], device: DeviceView | None, step_s: float, samples: list[LoopSample]
) -> list[BudgetPart]:
    """The step as the accelerator lived it where its clock was read, else as the loop's thread did.

    A thread's forward pass on a device is only the time to queue it. ``samples`` are those of the loop's
    thread, without the ones in which it got its batch.
    """
    if device is None or device.clock is None:
        return _named(divide(steps), samples)
    if device.beat is None:
        return divide_device(device.clock, CLOCK_PARTS, step_s)
    return divide_device(device.beat, DEVICE_PARTS, step_s)


def divide_device(
    step: DeviceStepBreakdown | DeviceClockStep, names: tuple[tuple[str, str], ...], step_s: float
) -> list[BudgetPart]:
    """The device's mean step, busy and idle, as shares of ``step_s`` seconds; largest first."""
    known = {name: getattr(step, field) for name, field in names}
    known = {name: value for name, value in known.items() if value >= LITTLE * sum(known.values())}
    whole = sum(known.values())
    parts = [
        BudgetPart(name, value / whole, step_s * value / whole) for name, value in known.items() if value
    ]
    return sorted(parts, key=lambda part: -part.share)


def divide(steps: list[Step]) -> list[BudgetPart]:
    """Shares of the mean steady step, largest first; parts that never occurred are left out."""
    count = steps_in(steps)
    whole = seconds_in(steps)
    if whole <= 0:
        return []
    sums = {name: seconds_in(steps, field) for name, field in PARTS}
    parts = [BudgetPart(name, value / whole, value / count) for name, value in sums.items() if value > 0]
    return sorted(parts, key=lambda part: -part.share)


def _named(parts: list[BudgetPart], samples: list[LoopSample]) -> list[BudgetPart]:
    """The part that no hook times, divided as its stack samples are."""
    rest = next((part for part in parts if part.part == UNDIVIDED), None)
    seen: Counter[str] = Counter()
    for name, group in _groups(samples).items():
        seen[name] += samples_in(group)
    total = sum(seen.values())
    if rest is None or total < SAMPLES_AT_LEAST:
        return parts
    named = [
        (name, count / total)
        for name, count in seen.most_common(NAMED_AT_MOST)
        if rest.share * count / total >= NAMED_AT_LEAST and name != OTHERS
    ]
    left = 1 - sum(share for _, share in named)
    named += [(OTHERS, left)] if left > LITTLE else []
    divided = [BudgetPart(name, rest.share * share, rest.s_per_step * share) for name, share in named]
    return sorted([part for part in parts if part is not rest] + divided, key=lambda part: -part.share)


def _groups(samples: list[LoopSample]) -> dict[str, list[LoopSample]]:
    """Samples that no hook accounts for, by what they are called: the model's calls, or the user's function
    that the loop calls, with its line."""
    lines: dict[int, list[LoopSample]] = {}
    for one in samples:
        if one.part in UNTIMED:
            lines.setdefault(one.line, []).append(one)
    found: dict[str, list[LoopSample]] = {}
    for group in lines.values():
        whole, own = samples_in(group), samples_in(one for one in group if one.own)
        for one in group:
            name = one.part if not one.own and own < CALLS * whole else _name(one)
            found.setdefault(name, []).append(one)
    return found


def _name(one: LoopSample) -> str:
    place = one.called
    if place is not None:
        return place.function.removesuffix(".__call__") + "()"
    return f"line {one.line}" if one.line else one.part if not one.own else OTHERS
