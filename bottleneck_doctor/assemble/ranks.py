"""Reads what ranks say of each other: models shared among them, backward passes, collectives."""

from __future__ import annotations

from bisect import bisect_right
from statistics import median
from typing import Any

from ..agent import wire
from ..model.instruments import Operation
from ..model.loops import Parallel, Passes, Ranks
from .loaders import locate
from .rows import ProcessLog, Row, S
from .steps import asleep

PARALLEL_AT_MOST = 128
COLLECTIVES_AT_MOST = 64  # lines and modules per process


def read_ranks(logs: list[ProcessLog]) -> Ranks:
    """All wrapped models and the backward passes of all processes."""
    parallel = [one for log in logs for one in _parallel(log)]
    passes = [one for log in logs for one in _passes(log)]
    return Ranks(parallel[:PARALLEL_AT_MOST], passes[:PARALLEL_AT_MOST])


def _parallel(log: ProcessLog) -> list[Parallel]:
    facts = [fact for fact in log.facts if fact.get("fact") == "parallel"]
    books = {fact.get("model"): fact for fact in log.facts if fact.get("fact") == "ddp_books"}
    shared = [fact for fact in facts if fact.get("kind") == "ddp"]
    sharded = [fact for fact in facts if fact.get("kind") == "fsdp"]
    whole = [fact for fact in facts if fact.get("kind") != "fsdp"] + ([_sharded(sharded)] if sharded else [])
    return [_wrapped(log.pid, fact, books.get(_place(shared, fact), {})) for fact in whole]


def _sharded(groups: list[dict[str, Any]]) -> dict[str, Any]:
    """The groups of a sharded model as one; the last is built by the line that wraps all of it."""
    told = [dict(one.get("arguments") or {}) for one in groups]
    arguments = {
        "groups": len(groups),
        "resharded": sum(one.get("resharded") == "True" for one in told),
        **{
            name: ", ".join(sorted({str(one.get(name)) for one in told}))
            for name in ("param_dtype", "reduce_dtype")
        },
    }
    sums = {name: sum(int(one.get(name) or 0) for one in groups) for name in ("parameters", "gradient_bytes")}
    return {**groups[-1], **sums, "arguments": arguments}


def _place(shared: list[dict[str, Any]], fact: dict[str, Any]) -> int:
    """The number by which a model's books name it: models were built in this order."""
    return next((number for number, one in enumerate(shared, 1) if one is fact), 0)


def _wrapped(pid: int, fact: dict[str, Any], books: dict[str, Any]) -> Parallel:
    buckets = str(books.get("rebuilt_bucket_sizes") or books.get("bucket_sizes") or "")
    unused = books.get("unused_parameter_size")
    return Parallel(
        pid=pid,
        kind=str(fact.get("kind", "")),
        file=str(fact.get("file") or ""),
        line=int(fact.get("line") or 0),
        function=str(fact.get("function") or ""),
        parameters=int(fact.get("parameters") or 0),
        gradient_bytes=int(fact.get("gradient_bytes") or 0),
        buffers=int(fact.get("buffers") or 0),
        devices=int(fact.get("devices") or 0),
        world_size=int(fact.get("world_size") or 1),
        backend=str(fact.get("backend") or ""),
        arguments={str(name): str(value) for name, value in dict(fact.get("arguments") or {}).items()},
        bucket_bytes=[int(size) for size in buckets.split(",") if size.strip().isdigit()] or None,
        unused_bytes=int(unused) if isinstance(unused, int) else None,
        comm_hook=str(books.get("comm_hook") or ""),
    )


def _passes(log: ProcessLog) -> list[Passes]:
    rows = log.of(wire.EXCHANGE)
    steps = [row for row in log.of(wire.OPTIMIZER) if rows and row.end >= rows[0].t]
    groups = ((bool(which), [row for row in rows if row.exchanged == which]) for which in (0, 1))
    each = len(rows) / len(steps) if steps else 0.0
    return [_averaged(log.pid, shared, found, steps, each) for shared, found in groups if found]


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
        exchange_queue_s=median(max(0, row.run_queue_ns) for row in rows) * S,
        exchange_cpu_s=median(max(0, row.cpu_ns) for row in rows) * S,
    )


def _within(row: Row, steps: list[Row], begins: list[int]) -> bool:
    """Whether an optimizer was stepping: it called the pass for itself."""
    place = bisect_right(begins, row.t) - 1
    return place >= 0 and row.t < steps[place].end


def read_collectives(log: ProcessLog) -> list[Operation]:
    """The lines of a process that call collectives, the costliest first."""
    sites = {fact.get("site"): fact for fact in log.facts if fact.get("fact") == "site"}
    groups: dict[tuple[int, int], list[Row]] = {}
    for row in log.of(wire.COLLECTIVE):
        groups.setdefault((row.site, row.thread), []).append(row)
    found = [_operation(log.pid, key[1], rows, sites.get(key[0], {})) for key, rows in groups.items()]
    return sorted(found, key=lambda operation: -operation.total_s)[:COLLECTIVES_AT_MOST]


def _operation(pid: int, thread: int, rows: list[Row], site: dict[str, Any]) -> Operation:
    name, _, module = str(site.get("kind", "")).partition(" ")
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
