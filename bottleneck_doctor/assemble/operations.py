"""Sums up calls of one kind from one line, and data on distributed training: models, passes, collectives."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import fields, replace
from statistics import median

from ..agent import wire
from ..model.instruments import InstrumentWindow, Operation
from ..model.loops import Parallel, Passes, Ranks
from .facts import DdpBooksFact, ParallelFact, SiteFact
from .loaders import locate
from .rows import ProcessLog, Row, S
from .steps import asleep

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


def read_windows(log: ProcessLog, origin: int) -> list[InstrumentWindow]:
    """When torch.profiler ran in this process."""
    return [
        InstrumentWindow("torch.profiler", (row.t - origin) * S, (row.end - origin) * S)
        for row in log.of(wire.PROFILER_WINDOW)
    ]


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
        found.append(
            Parallel(
                pid=log.pid,
                **{one.name: getattr(fact, one.name) for one in fields(fact) if one.name != "rank"},
                bucket_bytes=[int(size) for size in re.findall(r"[0-9]{1,18}", buckets)] or None,
                unused_bytes=mine.unused_parameter_size,
                comm_hook=mine.comm_hook,
            )
        )
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
