"""Holds what the profiler's window saw against the loop: it must be a training step, and is taken for one."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from ..model.computing import Anatomy
from ..model.profile import Gap, Loop, Operator, Outside

SHORT = 0.25  # of what the loop does with a batch, usually: a window that saw less saw no whole step (ours)
SECONDS = "wall_s cpu_s own_s beyond_s large_s short_s long_s".split()
LONGEST = "longest_operators_s longest_pauses_s longest_calls_s".split()
WHAT = "one profiled step"
LONGER = "let the training run longer"


def is_step(anatomy: Anatomy, loops: list[Loop], outside: list[Outside]) -> bool:
    """Whether the window saw a training step, where the run trains."""
    trains = outside or any(one.backwards for one in loops)
    if not trains or anatomy.backwards is None:
        return True
    mine = [one for one in loops if one.pid == anatomy.pid and one.role == "train"]
    usual = max(map(_usual_s, mine), default=0.0)
    return anatomy.backwards > 0 and anatomy.wall_s / anatomy.batches >= SHORT * usual


def _usual_s(loop: Loop) -> float:
    """What the loop usually does with a batch, waiting for it apart."""
    table = loop.table
    rows = zip(table.wall_s, table.wait_s, table.steps, strict=True)
    return median([(wall - wait) / max(1, steps) for wall, wait, steps in rows] or [0.0])


def per_batch(anatomy: Anatomy) -> Anatomy:
    """One batch's part of a window."""
    batches = anatomy.batches
    if batches == 1:
        return anatomy
    parts: dict[str, Any] = {name: getattr(anatomy, name) / batches for name in SECONDS}
    parts |= {name: [one / batches for one in getattr(anatomy, name)] for name in LONGEST}
    return replace(anatomy, operators=round(anatomy.operators / batches), **parts)


def operators_per_batch(operators: list[Operator], batches: int) -> list[Operator]:
    """The same of its table."""
    return [
        replace(one, calls=one.calls / batches, self_cpu_s=one.self_cpu_s / batches,
                self_device_s=one.self_device_s / batches)
        for one in operators
    ]  # fmt: skip


def hold_up(
    anatomies: list[Anatomy], tables: dict[int, list[Operator]], loops: list[Loop], outside: list[Outside]
) -> tuple[list[Anatomy], list[Operator], list[Gap]]:
    """Windows and tables (process -> operators) as one batch's, without those that saw no training step."""
    kept = {one.pid: one for one in anatomies if is_step(one, loops, outside)}
    odd = {one.pid for one in anatomies} - kept.keys()
    operators = [
        one
        for pid, table in tables.items() if pid not in odd
        for one in operators_per_batch(table, kept[pid].batches if pid in kept else 1)
    ]  # fmt: skip
    gaps = [Gap(WHAT, f"the profiler's window in process {pid} saw no step of the training", LONGER)
            for pid in sorted(odd)]  # fmt: skip
    return [per_batch(one) for one in kept.values()], operators, gaps
