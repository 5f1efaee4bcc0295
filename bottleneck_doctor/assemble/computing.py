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


def _is_step(anatomy: DispatchBreakdown, loops: list[Loop], outside: list[Loop]) -> bool:
    """Whether the window saw a training step, where the run trains."""
    trains = outside or any(one.backwards for one in loops)
    if not trains or anatomy.backwards is None:
        return True
    usual = [0.0]  # seconds that each loop works on a batch, at the median
    for loop in loops:
        if loop.pid == anatomy.pid and loop.role == "train" and loop.table.t:
            rows = zip(loop.table.wall_s, loop.table.wait_s, loop.table.steps, strict=True)
            usual.append(median((wall - wait) / max(1, steps) for wall, wait, steps in rows))
    return anatomy.backwards > 0 and anatomy.wall_s / anatomy.batches >= SHORT * max(usual)


def hold_up(
    anatomies: list[DispatchBreakdown],
    tables: dict[int, list[Operator]],
    loops: list[Loop],
    outside: list[Loop],
) -> tuple[list[DispatchBreakdown], list[Operator], list[Gap]]:
    """Windows and tables (process -> operators) as one batch's, without those that saw no training step."""
    kept = {one.pid: one for one in anatomies if _is_step(one, loops, outside)}
    odd = {one.pid for one in anatomies} - kept.keys()
    operators = []
    for pid, table in tables.items():
        batches = kept[pid].batches if pid in kept else 1
        for one in table if pid not in odd else ():
            cpu_s, device_s = one.self_cpu_s / batches, one.self_device_s / batches
            each = replace(one, calls=one.calls / batches, self_cpu_s=cpu_s, self_device_s=device_s)
            operators.append(each)
    gaps = [
        Gap(
            "one profiled step",
            f"the profiler's window in process {pid} saw no step of the training",
            "let the training run longer",
        )
        for pid in sorted(odd)
    ]
    windows = []
    for window in kept.values():
        parts: dict[str, Any] = {name: getattr(window, name) / window.batches for name in SECONDS}
        parts |= {name: [one / window.batches for one in getattr(window, name)] for name in LONGEST}
        windows.append(replace(window, operators=round(window.operators / window.batches), **parts))
    return windows, operators, gaps


AT_MOST = 64  # of each kind in a profile
COMPILATIONS_AT_MOST = 512  # rows of one process


def read_computing(trainers: list[ProcessLog], fetchers: dict[str, list[Fetcher]], origin: int) -> Computing:
    """Facts of the training processes, and the padding in what their loaders gave them."""
    padded = {key: rows_of(members, wire.PADDING) for key, members in fetchers.items()}
    paddings = [
        Padding(key, len(rows), sum(row.places for row in rows), sum(row.padded for row in rows))
        for key, rows in padded.items()
        if rows
    ]
    switches = [_switches(log) for log in trainers]
    compilations = [_compilation(log, origin) for log in trainers]
    return Computing(
        switches=[one for one in switches if one is not None][:AT_MOST],
        optimizers=_facts_of(trainers, Optimizer),
        anatomies=_facts_of(trainers, DispatchBreakdown),
        gradient_rows=_facts_of(trainers, GradientRows),
        paddings=paddings[:AT_MOST],
        compilations=[one for one in compilations if one.t][:AT_MOST],
    )


def _facts_of(trainers: list[ProcessLog], kind: type[Fact]) -> list[Fact]:
    return [one for log in trainers for one in log.facts_of(kind)][:AT_MOST]


def _switches(log: ProcessLog) -> ScriptSettings | None:
    """What was set, what was noticed to be on later, and whether autocast was."""
    settings = log.facts_of(ScriptSettings)
    if not settings:
        return None
    noticed = sorted({one.switch for one in log.facts_of(NoticedFact)})
    unused = log.first(GraphFact).unused_share
    return replace(settings[0], noticed=noticed, autocast=uses_autocast(log), unused_share=unused)


def uses_autocast(log: ProcessLog) -> bool | None:
    """By the switch or by a graph in which weights were cast; None where neither can tell."""
    switched, casts = log.facts_of(ScriptSettings)[0].autocast, log.first(GraphFact).casts_weights
    return None if casts is None and not switched else bool(casts or switched)


def _compilation(log: ProcessLog, origin: int) -> Compilation:
    rows = [row for row in log.of(wire.COMPILED) if min(row.frames, row.breaks, row.compile_ns) >= 0]
    table = Compilation(log.pid)
    for row in rows[:: -(-len(rows) // COMPILATIONS_AT_MOST) or 1]:
        t, seconds = (row.t - origin) * S, row.compile_ns * S
        append(table, t=t, frames=row.frames, breaks=row.breaks, seconds=seconds)
    return table
