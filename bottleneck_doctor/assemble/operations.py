"""Sums up calls of one kind from one line: checkpoints, log records, copies; and garbage collections."""

from __future__ import annotations

from ..agent import wire
from ..model.instruments import InstrumentWindow, Operation, Operator
from .facts import SiteFact
from .loaders import locate
from .rows import ProcessLog, Row, S

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
