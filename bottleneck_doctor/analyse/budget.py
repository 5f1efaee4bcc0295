"""Divides the steady step into named parts that sum to one."""

from __future__ import annotations

from ..model.diagnosis import Step
from ..model.report import BudgetPart

PARTS = (
    ("data wait", "wait"), ("forward and rest", "compute"), ("backward", "backward"),
    ("optimizer", "optimizer"), ("transfer", "copy"), ("checkpoint", "checkpoint"), ("logging", "logging"),
    ("garbage collection", "collect"), ("waiting for other ranks", "exchange"),
)  # fmt: skip


def divide(steps: list[Step]) -> list[BudgetPart]:
    """Shares of the mean steady step, largest first; parts that never occurred are left out."""
    count = sum(step.steps for step in steps)
    whole = sum(step.wall * step.steps for step in steps)
    if whole <= 0:
        return []
    sums = {name: sum(getattr(step, field) * step.steps for step in steps) for name, field in PARTS}
    parts = [BudgetPart(name, value / whole, value / count) for name, value in sums.items() if value > 0]
    return sorted(parts, key=lambda part: -part.share)
