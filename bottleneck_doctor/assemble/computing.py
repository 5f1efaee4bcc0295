"""Gathers what the agents noted about how the model computes, its operations, and how its ranks exchange."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from statistics import median
from typing import Any

from ..agent import wire
from ..model.code import Location
from ..model.codec import fields_of
from ..model.instruments import Operation, Operator
from ..model.loops import Loop, Parallel, Passes, Ranks
from ..model.profile import (
    Compilation,
    CompilerNote,
    Computing,
    DispatchBreakdown,
    GradientRows,
    Optimizer,
    Padding,
    ScriptSettings,
)
from ..model.run import Gap
from ..source.files import is_users
from .facts import CompilerFact, DdpBooksFact, Fact, GraphFact, NoticedFact, ParallelFact, SiteFact
from .fetches import Fetcher, rows_of
from .loaders import locate
from .rows import ProcessLog, Row, S, append
from .steps import asleep

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
        Padding(
            key,
            len(rows),
            sum(row.places for row in rows),
            sum(row.padded for row in rows),
            sum(row.beyond for row in rows),
        )
        for key, rows in padded.items()
        if rows
    ]
    switches = [_switches(log) for log in trainers]
    compilations = []
    for log in trainers:
        compiled = [row for row in log.of(wire.COMPILED) if min(row.frames, row.breaks, row.compile_ns) >= 0]
        table = Compilation(log.pid)
        for row in compiled[:: -(-len(compiled) // COMPILATIONS_AT_MOST) or 1]:
            t, seconds = (row.t - origin) * S, row.compile_ns * S
            recorded = max(0, row.recorded)
            append(table, t=t, frames=row.frames, breaks=row.breaks, seconds=seconds, recorded=recorded)
        compilations.append(table)
    return Computing(
        switches=[one for one in switches if one is not None][:AT_MOST],
        optimizers=_facts_of(trainers, Optimizer),
        anatomies=_facts_of(trainers, DispatchBreakdown),
        gradient_rows=_facts_of(trainers, GradientRows),
        paddings=paddings[:AT_MOST],
        compilations=[one for one in compilations if one.t][:AT_MOST],
        compiler_notes=[note for log in trainers for note in _compiler_notes(log)][:AT_MOST],
    )


NUMBER = re.compile(r"\d+")
FRAME = re.compile(r"^\d+/\d+(_\d+)?: ")  # the number of the compiled frame that a guard belongs to
QUOTED = re.compile(r"(==|in) (['\"]).*")  # a text of the script's


def _compiler_notes(log: ProcessLog) -> list[CompilerNote]:
    """The most frequent first; those that differ by numbers alone are one, in the words of the last."""
    found: dict[tuple[str, str, Location | None], CompilerNote] = {}
    for fact in log.facts_of(CompilerFact):
        calls = [Location(*call) for call in fact.chain]
        place = next((one for one in calls if is_users(one.file)), calls[0] if calls else None)
        reason = QUOTED.sub(r"\1 a text", FRAME.sub("", fact.reason))
        key = fact.what, NUMBER.sub("#", reason), place
        count = found[key].count + 1 if key in found else 1
        found[key] = CompilerNote(log.pid, fact.what, reason, count, place)
    return sorted(found.values(), key=lambda one: -one.count)


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


EVENTS_AT_MOST = 256
OPERATIONS_AT_MOST = 64  # and as many exchanges
FULL = 2  # the generation whose collection visits every object


def read_operations(log: ProcessLog, origin: int) -> list[Operation]:
    """The heaviest operations of one process: calls by line, collections, exchanges by line and module."""
    sites = {one.site: one for one in log.facts_of(SiteFact)}
    groups: dict[tuple[str, SiteFact, int], list[Row]] = {}
    for row in log.of(wire.OPERATION, wire.COLLECTIVE, wire.COLLECTION):
        if row.kind == wire.COLLECTION:
            kind, site = "collection", SiteFact(function="full" if row.generation >= FULL else "young")
        else:
            site = sites.get(row.site, SiteFact(row.site))
            known = row.kind == wire.OPERATION and 0 <= row.operation < len(wire.OPERATIONS)
            kind = wire.OPERATIONS[row.operation] if known else "exchange"
            if row.kind == wire.OPERATION and not known:
                continue
        groups.setdefault((kind, site, row.thread), []).append(row)
    found = [_operation(log.pid, *key, rows, origin) for key, rows in groups.items()]
    found.sort(key=lambda operation: -operation.total_s)
    calls = [one for one in found if one.kind != "exchange"]
    exchanges = [one for one in found if one.kind == "exchange"]
    return calls[:OPERATIONS_AT_MOST] + exchanges[:OPERATIONS_AT_MOST]


def _operation(pid: int, kind: str, site: SiteFact, thread: int, rows: list[Row], origin: int) -> Operation:
    exchanges = kind == "exchange"  # of them there are many: no single ones are kept
    longest = sorted(rows, key=lambda row: -row.duration)[: 0 if exchanges else EVENTS_AT_MOST]
    called, _, module = site.kind.partition(" ") if exchanges else (site.function, "", "")
    calls = [max(1, row.calls) if row.kind == wire.OPERATION else 1 for row in rows]
    total = sum(row.duration for row in rows) * S
    collects = kind == "collection"
    return Operation(
        kind=kind,
        pid=pid,
        thread=thread,
        name=called,
        module=module,
        count=sum(calls),
        total_s=total,
        cpu_s=total if collects else sum(max(0, row.cpu_ns) for row in rows) * S,
        max_s=max(row.duration / many for row, many in zip(rows, calls, strict=True)) * S,
        location=locate(site),
        bytes=0 if collects else sum(max(0, row.bytes) for row in rows),
        events=sorted(((row.t - origin) * S, row.duration * S) for row in longest),
    )


PARALLEL_AT_MOST = 128


def read_ranks(logs: list[ProcessLog]) -> Ranks:
    """All wrapped models and the backward passes of all processes."""
    parallel = [one for log in logs for one in _parallel(log)]
    passes = [one for log in logs for one in _passes(log)]
    return Ranks(parallel[:PARALLEL_AT_MOST], passes[:PARALLEL_AT_MOST])


def _parallel(log: ProcessLog) -> list[Parallel]:
    models = log.facts_of(ParallelFact)
    books = {one.model: one for one in log.facts_of(DdpBooksFact)}  # numbered in the order of building
    sharded = [one for one in models if one.kind == "fsdp"]
    whole = [one for one in models if one.kind != "fsdp"] + ([_sharded(sharded)] if sharded else [])
    found, number = [], 0
    for fact in whole:
        number += fact.kind == "ddp"
        mine = books.get(number, DdpBooksFact()) if fact.kind == "ddp" else DdpBooksFact()
        buckets = mine.rebuilt_bucket_sizes or mine.bucket_sizes
        model = replace(
            Parallel(**fields_of(fact, Parallel)),
            bucket_bytes=[int(size) for size in re.findall(r"[0-9]{1,18}", buckets)] or None,
            unused_bytes=mine.unused_parameter_size,
            comm_hook=mine.comm_hook,
        )
        found.append(model)
    return found


def _sharded(groups: list[ParallelFact]) -> ParallelFact:
    """The groups of a sharded model as one; the last is built by the line that wraps all of it."""
    arguments = [one.arguments for one in groups]
    names = ("param_dtype", "reduce_dtype")
    types = {name: ", ".join(sorted({str(one.get(name)) for one in arguments})) for name in names}
    resharded = sum(one.get("resharded") == "True" for one in arguments)
    return replace(
        groups[-1],
        gradient_bytes=sum(one.gradient_bytes for one in groups),
        arguments={"groups": str(len(groups)), "resharded": str(resharded), **types},
    )


def _passes(log: ProcessLog) -> list[Passes]:
    rows = log.of(wire.EXCHANGE)
    steps = [row for row in log.of(wire.OPTIMIZER) if rows and row.end >= rows[0].t]
    begins = [step.t for step in steps]
    each = _between(rows, begins)
    found = []
    for shared in (False, True):
        mine = [row for row in rows if row.exchanged == shared]
        before = [bisect_right(begins, row.t) for row in mine]  # steps that had begun
        if mine:
            found.append(
                Passes(
                    pid=log.pid,
                    shared=shared,
                    count=len(mine),
                    # while an optimizer was stepping, its closure called the backward pass
                    in_optimizer=sum(
                        bool(n) and row.t < steps[n - 1].end for row, n in zip(mine, before, strict=True)
                    ),
                    per_step=each,
                    local_s=median(max(0, row.local_ns) for row in mine) * S,
                    exchange_s=median(asleep(row) for row in mine) * S,
                    exchange_cpu_s=median(max(0, row.cpu_ns) for row in mine) * S,
                )
            )
    return found


def _between(rows: list[Row], begins: list[int]) -> float:
    """Passes per optimizer step: the usual number between two steps; the mean where samples missed some."""
    seen = Counter(bisect_right(begins, row.t) for row in rows)
    counts = Counter(seen[place] for place in range(1, len(begins)))
    usual = max(counts, key=lambda passes: counts[passes], default=0)
    if usual and 2 * counts[usual] > len(begins) - 1:
        return float(usual)
    return len(rows) / len(begins) if begins else 0.0
