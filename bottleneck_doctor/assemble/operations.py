"""Sums up calls of one kind from one line: checkpoints, log records, copies; and garbage collections."""

from __future__ import annotations

from typing import Any

from ..agent import wire
from ..model.instruments import InstrumentWindow, Operation, Operator
from .loaders import locate
from .rows import ProcessLog, Row, S

EVENTS_AT_MOST = 256
OPERATIONS_AT_MOST = 64
FULL = 2  # the generation whose collection visits every object


def read_operations(log: ProcessLog, origin: int) -> list[Operation]:
    """The heaviest operations of one process."""
    sites = {fact.get("site"): fact for fact in log.facts if fact.get("fact") == "site"}
    groups: dict[tuple[str, int, int], list[Row]] = {}
    for row in log.of(wire.OPERATION):
        if 0 <= row.operation < len(wire.OPERATIONS):
            groups.setdefault((wire.OPERATIONS[row.operation], row.site, row.thread), []).append(row)
    for row in log.of(wire.COLLECTION):
        groups.setdefault(("collection", FULL if row.generation >= FULL else 0, row.thread), []).append(row)
    found = [_operation(log, key, rows, sites, origin) for key, rows in groups.items()]
    return sorted(found, key=lambda operation: -operation.total_s)[:OPERATIONS_AT_MOST]


def _operation(
    log: ProcessLog, key: tuple[str, int, int], rows: list[Row], sites: dict[Any, dict[str, Any]], origin: int
) -> Operation:
    kind, which, thread = key
    longest = sorted(rows, key=lambda row: -row.duration)[:EVENTS_AT_MOST]
    timed = kind != "collection"
    site = sites.get(which, {}) if timed else {"function": "full" if which == FULL else "young"}
    calls = [max(1, row.calls) if timed else 1 for row in rows]
    total = sum(row.duration for row in rows) * S
    return Operation(
        kind=kind,
        pid=log.pid,
        thread=thread,
        name=str(site.get("function", "")),
        count=sum(calls),
        total_s=total,
        cpu_s=sum(max(0, row.cpu_ns) for row in rows) * S if timed else total,
        max_s=max(row.duration / many for row, many in zip(rows, calls, strict=True)) * S,
        location=locate(site) if site and timed else None,
        bytes=sum(max(0, row.bytes) for row in rows) if timed else 0,
        events=sorted(((row.t - origin) * S, row.duration * S) for row in longest),
    )


def read_operators(log: ProcessLog) -> list[Operator]:
    """The table that a torch.profiler window left."""
    lines = (fact for fact in log.facts if fact.get("fact") == "operator")
    return [
        Operator(str(fact.get("name")), float(fact.get("calls", 0)), float(fact.get("self_cpu_s", 0)))
        for fact in lines
    ][:64]


def read_windows(log: ProcessLog, origin: int) -> list[InstrumentWindow]:
    """When torch.profiler ran in this process."""
    return [
        InstrumentWindow("torch.profiler", (row.t - origin) * S, (row.end - origin) * S)
        for row in log.of(wire.PROFILER_WINDOW)
    ]
