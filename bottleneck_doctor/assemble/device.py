"""Gathers what was measured of each rank's device: its clock, its copies, its allocator, its trace."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..agent import wire
from ..model.device import Allocator, DeviceFacts, TorchSettings
from ..model.instruments import InstrumentWindow, Sample
from ..model.profile import ScriptSettings
from ..model.run import Gap
from .computing import uses_autocast
from .device_steps import SampledStep, emptied, read_copies, read_looks, read_syncs, tabulate
from .facts import DeviceFact, DeviceSilentFact, TraceFact, TraceRefusedFact
from .kernels import passing_shapes
from .loaders import Iteration
from .rows import ProcessLog, S
from .trace import TraceTable, read_window

KIND = re.compile(r"^(?:(?:gpu|mig)-)+")
HIDDEN = Gap(
    "which gpu is which",
    "CUDA_VISIBLE_DEVICES hides the training's GPU from bdoc: its utilisation, power and clocks are unknown",
    "start bdoc with the CUDA_VISIBLE_DEVICES of the training",
)
SERIES = re.compile(r"gpu(\d+)_(whole_)?uuid")


@dataclass(frozen=True)
class Drivers:
    """Maps devices to the driver's series, ``gpu0_`` and on."""

    by_uuid: dict[str, int]
    several_ranks: bool

    def find(self, kind: str, uuid: str, index: int) -> int | None:
        """A device's number in NVML; torch's index where no UUID is known and only one process has a GPU."""
        if kind != "cuda":
            return None
        if plain(uuid) in self.by_uuid:
            return self.by_uuid[plain(uuid)]
        known = bool(uuid and self.by_uuid) or self.several_ranks
        return None if known else index


def plain(uuid: str) -> str:
    """A device's UUID without dashes and the prefix that NVML adds and torch does not."""
    return KIND.sub("", uuid.lower()).replace("-", "")


def read_drivers(samples: Iterable[Sample], logs: list[ProcessLog]) -> Drivers:
    """From the UUIDs that NVML reports once, at the start. A MIG slice goes by its own UUID and, where it is
    the only one of its GPU, by the GPU's as well: torch may report either."""
    static = [pair for sample in samples if sample.sensor == "gpu_static" for pair in sample.values.items()]
    found = [(SERIES.fullmatch(name), plain(str(uuid))) for name, uuid in static]
    named = [(match[2] is not None, uuid, int(match[1])) for match, uuid in found if match is not None]
    times = Counter(uuid for _, uuid, _ in named)
    of_wholes = {uuid: number for whole, uuid, number in named if whole and times[uuid] == 1}
    own = {uuid: number for whole, uuid, number in named if not whole}
    ranks = [log for log in logs if log.facts_of(DeviceFact)]
    return Drivers({**of_wholes, **own}, len(ranks) > 1)


def find_hidden(drivers: Drivers, devices: list[DeviceFacts]) -> list[Gap]:
    """``HIDDEN`` where NVML reported no series for a GPU that the training uses."""
    hidden = drivers.by_uuid and any(one.uuid and one.driver is None for one in devices)
    return [HIDDEN] if hidden else []


ROWS_AT_MOST = 512  # of the main rank's table
ROWS_OF_OTHERS = 64
OTHERS_AT_MOST = 15
WARM_STEPS = 10  # before the allocator and the caches are settled [analyse/steady.py]
WARM_SHARE = 0.34  # of a short run at most
TRACED = ("window", "kernels", "products", "convolutions", "recompute_s")  # facts that a trace alone tells


def read_devices(
    trainers: list[ProcessLog],
    iterations: dict[int, list[Iteration]],
    drivers: Drivers,
    windows: list[InstrumentWindow],
    origin: int,
    traces: dict[int, Traced],
) -> tuple[DeviceFacts | None, list[DeviceFacts]]:
    """The device of the rank with most steps, and those of the others; (None, []) without any."""
    aside = [(origin + int(one.start_s / S), origin + int(one.end_s / S)) for one in windows]
    found = []
    none: tuple[str, list[SampledStep]] = ("", [])
    for log in trainers:
        if any((log.facts_of(DeviceFact), log.facts_of(DeviceSilentFact))):
            every = read_looks(log, iterations[log.pid], aside).items()
            key, looks = max(every, key=_taken, default=none)  # the longest loop, as the analysis chooses
            found.append((sum(look.steps for look in looks), log, key, looks))
    found.sort(key=lambda one: -one[0])
    facts: list[DeviceFacts] = []
    for _, log, key, looks in found[: 1 + OTHERS_AT_MOST]:
        traced = traces.get(log.pid)
        mine = traced is not None and any(look.row.loader == traced.loader for look in looks)
        known = _facts(log, key, looks, drivers, traced.table if traced is not None and mine else None)
        table = tabulate(looks, origin, ROWS_OF_OTHERS if facts else ROWS_AT_MOST)
        facts.append(replace(known, table=table))
    return (facts[0], facts[1:]) if facts else (None, [])


def _taken(loop: tuple[str, list[SampledStep]]) -> int:
    return sum(look.host * look.steps for look in loop[1])


def _facts(
    log: ProcessLog, key: str, looks: list[SampledStep], drivers: Drivers, trace: TraceTable | None
) -> DeviceFacts:
    fact = log.first(DeviceFact)
    warm = _warm(looks)
    traced: dict[str, Any] = {}
    if trace is not None:
        traced = {name: getattr(trace, name) for name in TRACED}
        traced["sm_active_share"] = trace.window.sm_active_share
    return DeviceFacts(
        index=fact.index,
        name=fact.name,
        capability=fact.capability if not fact.hip else None,
        memory_bytes=fact.memory_bytes,
        copies=read_copies(log, warm),
        syncs=read_syncs(log, warm, trace.idle_by_site if trace is not None else None),
        allocator=_allocator(log, warm),
        switches=_switches(log, trace),
        kind=fact.kind,
        uuid=fact.uuid,
        driver=drivers.find("hip" if fact.hip else fact.kind, fact.uuid, fact.index),
        pid=log.pid,
        loader=key,
        least_pair_s=max(0, min((look.row.wait_ns for look in looks), default=0)) * S,
        silent=log.first(DeviceSilentFact).why,
        **traced,
    )


def _warm(looks: list[SampledStep]) -> list[SampledStep]:
    """Those after warm-up."""
    ends = accumulate(look.steps for look in looks)
    cold = min(WARM_STEPS, int(WARM_SHARE * sum(look.steps for look in looks)))
    return [look for look, end in zip(looks, ends, strict=True) if end > cold]


def _allocator(log: ProcessLog, looks: list[SampledStep]) -> Allocator | None:
    """The rise of its counters over the steady steps; only the peak where there are too few readings."""
    asked = log.of(wire.ALLOCATOR)
    if not asked:
        return None
    begin = looks[0].row.t if looks else math.inf
    steady = [row for row in asked if row.t >= begin]
    peak = max(0, *(row.peak_bytes for row in asked))
    reserved = max(0, *(row.reserved_bytes for row in asked))
    if len(steady) < 2:
        return Allocator(0, peak_bytes=peak, reserved_bytes=reserved)
    first, last = steady[0], steady[-1]
    between = [look for look in looks if first.t <= look.row.t < last.t]
    steps = sum(look.steps for look in between)
    retries, requests = max(0, last.retries - first.retries), max(0, last.requests - first.requests)
    counted = last.emptied != wire.NOTHING
    calls = max(0, last.emptied - first.emptied) if counted else round(steps * emptied(between))
    return Allocator(steps, retries, requests, calls, peak, reserved)


def _switches(log: ProcessLog, trace: TraceTable | None) -> TorchSettings | None:
    settings = next(iter(log.facts_of(ScriptSettings)), None)
    if settings is None:
        return None
    seen = trace.convolutions if trace is not None else []
    return TorchSettings(
        matmul_precision=settings.matmul_precision,
        autocast={None: None, True: "on", False: ""}[uses_autocast(log)],
        compiled=bool(log.of(wire.COMPILED)),
        cudnn_benchmark=settings.cudnn_benchmark,
        convolution_shapes=passing_shapes(seen, trace.window.steps) if trace is not None and seen else None,
    )


TRACES_BYTES_AT_MOST = 256 << 20  # of a run: four seconds to read; the traces of many ranks are much alike


@dataclass(frozen=True)
class Traced:
    """A trace that was read, and the number of the loader whose loop it shows, 0 = of none."""

    loader: int
    table: TraceTable


def read_traces(logs: list[ProcessLog], folder: Path | None) -> dict[int, Traced]:
    """By process: the first of its traces that holds whole steps."""
    found: dict[int, Traced] = {}
    left = TRACES_BYTES_AT_MOST
    if folder is None:
        return found
    for log in logs:
        for fact in log.facts_of(TraceFact):
            file = folder / os.path.basename(fact.file)
            left -= os.path.getsize(file) if os.path.isfile(file) else 0
            if left < 0 or log.pid in found:
                break
            table = read_window(file)
            if table is not None:
                found[log.pid] = Traced(fact.loader, table)
    return found


def find_untraced(logs: list[ProcessLog], traces: dict[int, Traced]) -> list[Gap]:
    """If all profilers' windows failed: the reason that the first process with one reported."""
    whys = [log.first(TraceRefusedFact).why for log in logs]
    if any(log.facts_of(TraceFact) for log in logs):
        whys.append(
            "the trace holds no two whole steps, or is too large to be read, or times the device by a clock "
            "that disagrees with the host's"
        )
    why = next((one for one in whys if one), "")
    if traces or not why:
        return []
    do = "run again without another profiler, and with room under TMPDIR"
    do = "--keep-trace records all the same" if "CUPTI would stay" in why else do
    return [Gap("kernels", f"what the device did in a step is not known: {why}", do)]
