"""Divides the steady step into named parts that sum to one."""

from __future__ import annotations

from ..model.device_view import Beat, Clock, DeviceView
from ..model.diagnosis import Step
from ..model.report import BudgetPart

PARTS = (
    ("data wait", "wait"), ("forward and rest", "compute"), ("backward", "backward"),
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

LITTLE = 1e-5  # of the step: what rounding leaves is no part of it


def budget_of(steps: list[Step], device: DeviceView | None, step_s: float) -> list[BudgetPart]:
    """The step as the accelerator lived it where its clock was read, else as the loop's thread did.

    A thread's forward pass on a device is only the time to queue it.
    """
    if device is None or device.clock is None:
        return divide(steps)
    if device.beat is None:
        return divide_device(device.clock, CLOCK_PARTS, step_s)
    return divide_device(device.beat, DEVICE_PARTS, step_s)


def divide_device(step: Beat | Clock, names: tuple[tuple[str, str], ...], step_s: float) -> list[BudgetPart]:
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
    count = sum(step.steps for step in steps)
    whole = sum(step.wall * step.steps for step in steps)
    if whole <= 0:
        return []
    sums = {name: sum(getattr(step, field) * step.steps for step in steps) for name, field in PARTS}
    parts = [BudgetPart(name, value / whole, value / count) for name, value in sums.items() if value > 0]
    return sorted(parts, key=lambda part: -part.share)
