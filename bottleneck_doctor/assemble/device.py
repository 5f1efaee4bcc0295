"""Gathers what was measured of each rank's device: its clock, its copies, its allocator, its trace."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..agent import wire
from ..model.device import Allocator, DeviceFacts, Switches
from ..model.profile import Window
from .arrivals import Iteration
from .device_table import emptied, read_copies, read_syncs, tabulate
from .drivers import Drivers
from .looks import Look, read_looks
from .products import passing_shapes
from .rows import Diary
from .steps import S
from .trace import TraceTable
from .traces import Traced

ROWS_AT_MOST = 512  # of the main rank's table
ROWS_OF_OTHERS = 64
OTHERS_AT_MOST = 15
WARM_STEPS = 10  # before the allocator and the caches are settled [analyse/steady.py]
WARM_SHARE = 0.34  # of a short run at most


def read_devices(
    trainers: list[Diary],
    iterations: dict[int, list[Iteration]],
    drivers: Drivers,
    windows: list[Window],
    origin: int,
    traces: dict[int, Traced],
) -> tuple[DeviceFacts | None, list[DeviceFacts]]:
    """The device of the rank with most steps, and those of the others; (None, []) without any."""
    aside = [(origin + int(one.start_s / S), origin + int(one.end_s / S)) for one in windows]
    found = []
    for diary in trainers:
        if diary.first("device") or diary.first("device_silent"):
            key, looks = _longest(read_looks(diary, iterations[diary.pid], aside))
            found.append((sum(look.steps for look in looks), diary, key, looks))
    found.sort(key=lambda one: -one[0])
    facts: list[DeviceFacts] = []
    for _, diary, key, looks in found[: 1 + OTHERS_AT_MOST]:
        traced = traces.get(diary.pid)
        mine = traced is not None and any(look.row.thing == traced.loader for look in looks)
        known = _facts(diary, key, looks, drivers, traced.table if traced is not None and mine else None)
        table = tabulate(looks, origin, ROWS_OF_OTHERS if facts else ROWS_AT_MOST)
        facts.append(replace(known, table=table))
    return (facts[0], facts[1:]) if facts else (None, [])


def _longest(loops: dict[str, list[Look]]) -> tuple[str, list[Look]]:
    """The loop that took longest, as the analysis chooses it."""
    empty: tuple[str, list[Look]] = ("", [])
    return max(loops.items(), key=lambda one: sum(look.host * look.steps for look in one[1]), default=empty)


def _facts(
    diary: Diary, key: str, looks: list[Look], drivers: Drivers, trace: TraceTable | None
) -> DeviceFacts:
    said = diary.first("device")
    kind, uuid, index = str(said.get("kind", "")), str(said.get("uuid") or ""), _count(said.get("index")) or 0
    warm = looks[_settled(looks) :]
    return DeviceFacts(
        index=index,
        name=str(said.get("name", "")),
        capability=_pair(said.get("capability")) if not said.get("hip") else None,
        memory_bytes=_count(said.get("memory_bytes")),
        copies=read_copies(diary, warm),
        syncs=read_syncs(diary, warm, trace.idle_by_site if trace is not None else None),
        kernels=trace.kernels if trace is not None else None,
        products=trace.products if trace is not None else None,
        convolutions=trace.convolutions if trace is not None else None,
        allocator=_allocator(diary, warm),
        switches=_switches(diary, trace),
        recompute_s=trace.recompute_s if trace is not None else None,
        sm_active_share=trace.window.sm_active_share if trace is not None else None,
        kind=kind,
        uuid=uuid,
        multiprocessors=_count(said.get("multiprocessors")),
        driver=drivers.find(kind if not said.get("hip") else "hip", uuid, index),
        pid=diary.pid,
        loader=key,
        least_pair_s=max(0, min((look.row.a for look in looks), default=0)) * S,
        silent=str(diary.first("device_silent").get("why", "")),
        window=trace.window if trace is not None else None,
    )


def _settled(looks: list[Look]) -> int:
    """The first look after warm-up."""
    left = min(WARM_STEPS, int(WARM_SHARE * sum(look.steps for look in looks)))
    for place, look in enumerate(looks):
        left -= look.steps
        if left < 0:
            return place
    return len(looks)


def _allocator(diary: Diary, looks: list[Look]) -> Allocator | None:
    """What its counters rose by over the steady steps; the peak alone where it was asked too rarely."""
    asked = diary.of(wire.ALLOCATOR)
    if not asked:
        return None
    begin = looks[0].row.t if looks else math.inf
    steady = [row for row in asked if row.t >= begin]
    peak, reserved = max(row.d for row in asked), max(row.e for row in asked)
    if len(steady) < 2:
        return Allocator(0, peak_bytes=max(0, peak), reserved_bytes=max(0, reserved))
    first, last = steady[0], steady[-1]
    between = [look for look in looks if first.t <= look.row.t < last.t]
    steps = sum(look.steps for look in between)
    retries, allocations, calls = (
        max(0, after - before) for before, after in zip(first[2:5], last[2:5], strict=True)
    )
    if last.c == wire.NOTHING:
        calls = round(steps * emptied(between))
    return Allocator(steps, retries, allocations, calls, max(0, peak), max(0, reserved))


def _switches(diary: Diary, trace: TraceTable | None) -> Switches | None:
    said = diary.first("switches")
    if not said:
        return None
    casts = diary.first("graph").get("casts_weights")
    mixed = None if casts is None and not said.get("autocast") else bool(casts or said.get("autocast"))
    seen = trace.convolutions if trace is not None else []
    precision, tuned = said.get("matmul_precision"), said.get("cudnn_benchmark")
    return Switches(
        matmul_precision=None if precision is None else str(precision),
        autocast={None: None, True: "on", False: ""}[mixed],
        compiled=bool(diary.of(wire.COMPILED)),
        cudnn_benchmark=None if tuned is None else bool(tuned),
        convolution_shapes=passing_shapes(seen, trace.window.steps) if trace is not None and seen else None,
    )


def _pair(value: Any) -> tuple[int, int] | None:
    known = isinstance(value, list) and len(value) == 2 and all(isinstance(one, int) for one in value)
    return (value[0], value[1]) if known else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
