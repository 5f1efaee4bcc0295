"""Sums up calls of one kind from one line, and data on distributed training: models, passes, collectives."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import fields, replace
from statistics import median

from ..agent import wire
from ..model.instruments import InstrumentWindow, Operation, Operator
from ..model.loops import Parallel, Passes, Ranks
from .facts import DdpBooksFact, ParallelFact, SiteFact
from .loaders import locate
from .rows import ProcessLog, Row, S
from .steps import asleep

EVENTS_AT_MOST = 256
OPERATIONS_AT_MOST = 64
FULL = 2  # the generation whose collection visits every object


def read_operations(log: ProcessLog, origin: int) -> list[Operation]:
    """The heaviest operations of one process."""
    sites = {one.site: one for one in log.told(SiteFact)}
    groups: dict[tuple[str, int, int], list[Row]] = {}
    for row in log.of(wire.OPERATION):
        if 0 <= row.operation < len(wire.OPERATIONS):
            groups.setdefault((wire.OPERATIONS[row.operation], row.site, row.thread), []).append(row)
    for row in log.of(wire.COLLECTION):
        groups.setdefault(("collection", FULL if row.generation >= FULL else 0, row.thread), []).append(row)
    found = [_operation(log, key, rows, sites, origin) for key, rows in groups.items()]
    return sorted(found, key=lambda operation: -operation.total_s)[:OPERATIONS_AT_MOST]


def _operation(
    log: ProcessLog, key: tuple[str, int, int], rows: list[Row], sites: dict[int, SiteFact], origin: int
) -> Operation:
    kind, which, thread = key
    longest = sorted(rows, key=lambda row: -row.duration)[:EVENTS_AT_MOST]
    timed = kind != "collection"
    young = SiteFact(function="full" if which == FULL else "young")
    site = sites.get(which, SiteFact()) if timed else young
    calls = [max(1, row.calls) if timed else 1 for row in rows]
    total = sum(row.duration for row in rows) * S
    return Operation(
        kind=kind,
        pid=log.pid,
        thread=thread,
        name=site.function,
        count=sum(calls),
        total_s=total,
        cpu_s=sum(max(0, row.cpu_ns) for row in rows) * S if timed else total,
        max_s=max(row.duration / many for row, many in zip(rows, calls, strict=True)) * S,
        location=locate(site),
        bytes=sum(max(0, row.bytes) for row in rows) if timed else 0,
        events=sorted(((row.t - origin) * S, row.duration * S) for row in longest),
    )


def read_operators(log: ProcessLog) -> list[Operator]:
    """The table that a torch.profiler window left."""
    return log.told(Operator)[:64]


def read_windows(log: ProcessLog, origin: int) -> list[InstrumentWindow]:
    """When torch.profiler ran in this process."""
    return [
        InstrumentWindow("torch.profiler", (row.t - origin) * S, (row.end - origin) * S)
        for row in log.of(wire.PROFILER_WINDOW)
    ]


PARALLEL_AT_MOST = 128
COLLECTIVES_AT_MOST = 64  # lines and modules per process


def read_ranks(logs: list[ProcessLog]) -> Ranks:
    """All wrapped models and the backward passes of all processes."""
    parallel = [one for log in logs for one in _parallel(log)]
    passes = [one for log in logs for one in _passes(log)]
    return Ranks(parallel[:PARALLEL_AT_MOST], passes[:PARALLEL_AT_MOST])


def _parallel(log: ProcessLog) -> list[Parallel]:
    models = log.told(ParallelFact)
    books = {one.model: one for one in log.told(DdpBooksFact)}
    shared = [one for one in models if one.kind == "ddp"]
    sharded = [one for one in models if one.kind == "fsdp"]
    whole = [one for one in models if one.kind != "fsdp"] + ([_sharded(sharded)] if sharded else [])
    return [_wrapped(log.pid, one, books.get(_place(shared, one), DdpBooksFact())) for one in whole]


def _sharded(groups: list[ParallelFact]) -> ParallelFact:
    """The groups of a sharded model as one; the last is built by the line that wraps all of it."""
    told = [one.arguments for one in groups]
    arguments = {
        "groups": str(len(groups)),
        "resharded": str(sum(one.get("resharded") == "True" for one in told)),
        **{
            name: ", ".join(sorted({str(one.get(name)) for one in told}))
            for name in ("param_dtype", "reduce_dtype")
        },
    }
    return replace(
        groups[-1],
        parameters=sum(one.parameters for one in groups),
        gradient_bytes=sum(one.gradient_bytes for one in groups),
        arguments=arguments,
    )


def _place(shared: list[ParallelFact], fact: ParallelFact) -> int:
    """The number of a model in rows and facts: models were built in this order."""
    return next((number for number, one in enumerate(shared, 1) if one is fact), 0)


def _wrapped(pid: int, fact: ParallelFact, books: DdpBooksFact) -> Parallel:
    buckets = books.rebuilt_bucket_sizes or books.bucket_sizes
    return Parallel(
        pid=pid,
        **{one.name: getattr(fact, one.name) for one in fields(fact) if one.name != "rank"},
        bucket_bytes=[int(size) for size in re.findall(r"[0-9]{1,18}", buckets)] or None,
        unused_bytes=books.unused_parameter_size,
        comm_hook=books.comm_hook,
    )


def _passes(log: ProcessLog) -> list[Passes]:
    rows = log.of(wire.EXCHANGE)
    steps = [row for row in log.of(wire.OPTIMIZER) if rows and row.end >= rows[0].t]
    groups = ((bool(which), [row for row in rows if row.exchanged == which]) for which in (0, 1))
    each = _between(rows, steps)
    return [_averaged(log.pid, shared, found, steps, each) for shared, found in groups if found]


def _between(rows: list[Row], steps: list[Row]) -> float:
    """Passes per optimizer step: the usual number between two steps; the mean where samples missed some."""
    begins = [step.t for step in steps]
    seen = Counter(bisect_right(begins, row.t) for row in rows)
    counts = Counter(seen[place] for place in range(1, len(steps)))
    usual = max(counts, key=lambda passes: counts[passes], default=0)
    if usual and 2 * counts[usual] > len(steps) - 1:
        return float(usual)
    return len(rows) / len(steps) if steps else 0.0


def _averaged(pid: int, shared: bool, rows: list[Row], steps: list[Row], each: float) -> Passes:
    begins = [step.t for step in steps]
    return Passes(
        pid=pid,
        shared=shared,
        count=len(rows),
        in_optimizer=sum(_within(row, steps, begins) for row in rows),
        per_step=each,
        local_s=median(max(0, row.local_ns) for row in rows) * S,
        exchange_s=median(asleep(row) for row in rows) * S,
        exchange_cpu_s=median(max(0, row.cpu_ns) for row in rows) * S,
    )


def _within(row: Row, steps: list[Row], begins: list[int]) -> bool:
    """Whether an optimizer was stepping: then its closure called the backward pass."""
    place = bisect_right(begins, row.t) - 1
    return place >= 0 and row.t < steps[place].end


def read_collectives(log: ProcessLog) -> list[Operation]:
    """The lines of a process that call collectives, the costliest first."""
    sites = {one.site: one for one in log.told(SiteFact)}
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in log.of(wire.COLLECTIVE):
        groups.setdefault((row.site, row.thread), []).append(row)
    found = [
        _collective(log.pid, key[1], rows, sites.get(key[0], SiteFact())) for key, rows in groups.items()
    ]
    return sorted(found, key=lambda operation: -operation.total_s)[:COLLECTIVES_AT_MOST]


def _collective(pid: int, thread: int, rows: list[Row], site: SiteFact) -> Operation:
    name, _, module = site.kind.partition(" ")
    return Operation(
        kind="exchange",
        pid=pid,
        thread=thread,
        name=name,
        module=module,
        count=len(rows),
        total_s=sum(row.duration for row in rows) * S,
        cpu_s=sum(max(0, row.cpu_ns) for row in rows) * S,
        max_s=max(row.duration for row in rows) * S,
        location=locate(site),
        bytes=sum(max(0, row.bytes) for row in rows),
    )
