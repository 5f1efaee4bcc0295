"""Gathers what the agents noted about how the model computes."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

from ..agent import wire
from ..model.computing import (
    Compilation,
    Computing,
    DispatchBreakdown,
    GradientRows,
    Optimizer,
    Padding,
    ScriptSettings,
)
from ..model.instruments import Operator
from ..model.loops import Loop
from ..model.run import Gap
from .facts import Fact, GraphFact, NoticedFact
from .fetches import Fetcher, rows_of
from .rows import ProcessLog, S, append

SHORT = 0.25  # of what the loop does with a batch, usually: a window that saw less saw no whole step (chosen)
SECONDS = "wall_s cpu_s own_s beyond_s large_s short_s long_s".split()
LONGEST = "longest_operators_s longest_pauses_s longest_calls_s".split()
WHAT = "one profiled step"
LONGER = "let the training run longer"


def is_step(anatomy: DispatchBreakdown, loops: list[Loop], outside: list[Loop]) -> bool:
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


def per_batch(anatomy: DispatchBreakdown) -> DispatchBreakdown:
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
    anatomies: list[DispatchBreakdown],
    tables: dict[int, list[Operator]],
    loops: list[Loop],
    outside: list[Loop],
) -> tuple[list[DispatchBreakdown], list[Operator], list[Gap]]:
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


AT_MOST = 64  # of each kind in a profile
COMPILATIONS_AT_MOST = 512  # rows of one process


def read_computing(trainers: list[ProcessLog], fetchers: dict[str, list[Fetcher]], origin: int) -> Computing:
    """Facts of the training processes, and the padding in what their loaders gave them."""
    switches = [_switches(log) for log in trainers]
    paddings = [_padding(key, members) for key, members in fetchers.items()]
    compilations = [_compilation(log, origin) for log in trainers]
    return Computing(
        switches=[one for one in switches if one is not None][:AT_MOST],
        optimizers=_told(trainers, Optimizer),
        anatomies=_told(trainers, DispatchBreakdown),
        gradient_rows=_told(trainers, GradientRows),
        paddings=[one for one in paddings if one is not None][:AT_MOST],
        compilations=[one for one in compilations if one.t][:AT_MOST],
    )


def _told(trainers: list[ProcessLog], kind: type[Fact]) -> list[Fact]:
    return [one for log in trainers for one in log.told(kind)][:AT_MOST]


def _switches(log: ProcessLog) -> ScriptSettings | None:
    """What was set, what was noticed to be on later, and whether autocast was."""
    said = log.told(ScriptSettings)
    if not said:
        return None
    noticed = sorted({one.switch for one in log.told(NoticedFact)})
    return replace(
        said[0], noticed=noticed, autocast=uses_autocast(log), unused_share=log.first(GraphFact).unused_share
    )


def uses_autocast(log: ProcessLog) -> bool | None:
    """By the switch or by a graph in which weights were cast; None where neither can tell."""
    switched, casts = log.told(ScriptSettings)[0].autocast, log.first(GraphFact).casts_weights
    return None if casts is None and not switched else bool(casts or switched)


def _padding(key: str, fetchers: list[Fetcher]) -> Padding | None:
    rows = rows_of(fetchers, wire.PADDING)
    if not rows:
        return None
    return Padding(key, len(rows), sum(row.places for row in rows), sum(row.padded for row in rows))


def _compilation(log: ProcessLog, origin: int) -> Compilation:
    rows = [row for row in log.of(wire.COMPILED) if min(row.frames, row.breaks, row.compile_ns) >= 0]
    table = Compilation(log.pid)
    for row in rows[:: -(-len(rows) // COMPILATIONS_AT_MOST) or 1]:
        t, seconds = (row.t - origin) * S, row.compile_ns * S
        append(table, t=t, frames=row.frames, breaks=row.breaks, seconds=seconds)
    return table
