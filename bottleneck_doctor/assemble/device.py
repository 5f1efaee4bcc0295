"""Gathers what was measured of each rank's device: its clock, its copies, its allocator, its trace."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent import wire
from ..model.device import Allocator, DeviceFacts, Switches
from ..model.profile import Window
from ..model.sample import Sample
from .arrivals import Iteration
from .device_table import read_copies, read_syncs, tabulate
from .looks import Look, read_looks
from .rows import Diary
from .steps import S

ROWS_AT_MOST = 512  # of the main rank's table
ROWS_OF_OTHERS = 64
OTHERS_AT_MOST = 15
WARM_STEPS = 10  # before the allocator and the caches are settled [analyse/steady.py]
WARM_SHARE = 0.34  # of a short run at most


@dataclass(frozen=True)
class Drivers:
    """Which of the driver's series, ``gpu0_`` and on, is which device."""

    by_uuid: dict[str, int]
    several_ranks: bool

    def find(self, kind: str, uuid: str, index: int) -> int | None:
        """Its number there; by torch's index where no name is known, unless each rank counts for itself."""
        if kind != "cuda":
            return None
        if plain(uuid) in self.by_uuid:
            return self.by_uuid[plain(uuid)]
        known = bool(uuid and self.by_uuid) or self.several_ranks
        return None if known else index


def plain(uuid: str) -> str:
    """A device's name without what NVML puts before it and torch does not."""
    return uuid.lower().removeprefix("gpu-").replace("-", "")


def read_drivers(samples: Iterable[Sample], diaries: list[Diary]) -> Drivers:
    """From what the driver says once, at the start."""
    said = (sample.values for sample in samples if sample.sensor == "gpu_static")
    names = {name: str(value) for values in said for name, value in values.items() if name.endswith("_uuid")}
    numbers = {name[3:-5]: plain(uuid) for name, uuid in names.items() if name.startswith("gpu")}
    ranks = [diary for diary in diaries if diary.first("device")]
    return Drivers({uuid: int(one) for one, uuid in numbers.items() if one.isdigit()}, len(ranks) > 1)


def read_devices(
    trainers: list[Diary],
    iterations: dict[int, list[Iteration]],
    drivers: Drivers,
    windows: list[Window],
    origin: int,
    folder: Path | None = None,
) -> tuple[DeviceFacts | None, list[DeviceFacts]]:
    """The device of the rank with most steps, and those of the others; (None, []) without any."""
    aside = [(origin + int(one.start_s / S), origin + int(one.end_s / S)) for one in windows]
    found = []
    for diary in trainers:
        if diary.first("device") or diary.first("device_silent"):
            key, looks = _longest(read_looks(diary, iterations[diary.pid], aside))
            found.append((sum(look.steps for look in looks), diary, key, looks))
    found.sort(key=lambda one: -one[0])
    facts = [
        _facts(diary, key, looks, drivers, origin, ROWS_OF_OTHERS if place else ROWS_AT_MOST)
        for place, (_, diary, key, looks) in enumerate(found[: 1 + OTHERS_AT_MOST])
    ]
    return (facts[0], facts[1:]) if facts else (None, [])


def _longest(loops: dict[str, list[Look]]) -> tuple[str, list[Look]]:
    """The loop that took longest, as the analysis chooses it."""
    empty: tuple[str, list[Look]] = ("", [])
    return max(loops.items(), key=lambda one: sum(look.host * look.steps for look in one[1]), default=empty)


def _facts(
    diary: Diary, key: str, looks: list[Look], drivers: Drivers, origin: int, at_most: int
) -> DeviceFacts:
    said = diary.first("device")
    kind, uuid, index = str(said.get("kind", "")), str(said.get("uuid") or ""), _count(said.get("index")) or 0
    warm = looks[_settled(looks) :]
    return DeviceFacts(
        index=index,
        name=str(said.get("name", "")),
        capability=_pair(said.get("capability")) if not said.get("hip") else None,
        memory_bytes=_count(said.get("memory_bytes")),
        table=tabulate(looks, origin, at_most),
        copies=read_copies(diary, warm),
        syncs=read_syncs(diary, warm, None),
        allocator=_allocator(diary, warm),
        switches=_switches(diary),
        kind=kind,
        uuid=uuid,
        multiprocessors=_count(said.get("multiprocessors")),
        driver=drivers.find(kind if not said.get("hip") else "hip", uuid, index),
        pid=diary.pid,
        loader=key,
        least_pair_s=max(0, min((look.row.a for look in looks), default=0)) * S,
        silent=str(diary.first("device_silent").get("why", "")),
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
    steps = sum(look.steps for look in looks if first.t <= look.row.t < last.t)
    counters = [(first.a, last.a), (first.b, last.b), (first.c, last.c)]
    retries, allocations, calls = (max(0, after - before) for before, after in counters)
    return Allocator(steps, retries, allocations, calls, max(0, peak), max(0, reserved))


def _switches(diary: Diary) -> Switches | None:
    said = diary.first("switches")
    if not said:
        return None
    casts = diary.first("graph").get("casts_weights")
    mixed = None if casts is None and not said.get("autocast") else bool(casts or said.get("autocast"))
    precision, tuned = said.get("matmul_precision"), said.get("cudnn_benchmark")
    return Switches(
        matmul_precision=None if precision is None else str(precision),
        autocast={None: None, True: "on", False: ""}[mixed],
        compiled=bool(diary.of(wire.COMPILED)),
        cudnn_benchmark=None if tuned is None else bool(tuned),
    )


def _pair(value: Any) -> tuple[int, int] | None:
    known = isinstance(value, list) and len(value) == 2 and all(isinstance(one, int) for one in value)
    return (value[0], value[1]) if known else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
