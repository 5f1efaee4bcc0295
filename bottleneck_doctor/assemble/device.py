"""Gathers what was measured of each rank's device: its clock, its copies, its allocator, its trace."""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..agent import wire
from ..model.device import Allocator, DeviceCopy, DeviceFacts, DeviceSync, DeviceTable, TorchSettings
from ..model.instruments import InstrumentWindow, Sample
from ..model.profile import ScriptSettings
from ..model.run import Gap
from .computing import uses_autocast
from .facts import DeviceFact, DeviceSilentFact, SiteFact, TraceFact, TraceRefusedFact
from .kernels import passing_shapes
from .loaders import Iteration, SampledArrival
from .rows import ProcessLog, Row, S
from .trace import TraceTable, read_window

ALONE = ""  # the key of a loop that no loader feeds
PARTS = (wire.DEVICE_PART, wire.DEVICE_COPY, wire.DEVICE_WAIT)
Span = tuple[int, int]  # nanoseconds on CLOCK_MONOTONIC


@dataclass(frozen=True)
class SampledStep:
    """One sampled step, which stands for ``steps``. Times in nanoseconds: ``wall`` and ``wait`` by the
    device's clock, ``host`` and ``host_wait`` by the loop's thread. ``got`` is when the batch arrived."""

    row: Row
    steps: int
    wall: int
    wait: int
    host: int
    host_wait: int
    got: int
    within: list[Row] = field(default_factory=list)

    @property
    def end(self) -> int:
        """When the loop asked for its next batch."""
        return self.row.end

    @property
    def heard(self) -> bool:
        """Whether copies and synchronizing calls were recorded in this step."""
        return self.row.copies != wire.NOTHING


def read_looks(
    log: ProcessLog, iterations: list[Iteration], set_aside: Sequence[Span]
) -> dict[str, list[SampledStep]]:
    """Sampled steps of each training loop, by its loader's key, in order of time; none in ``set_aside``."""
    found: dict[str, list[SampledStep]] = {}
    parts = log.of(*PARTS)
    for key, look in [*_of_loaders(log, iterations), *_alone(log)]:
        if not any(begin < look.end and look.row.t < end for begin, end in set_aside):
            inside = parts[bisect_left(parts, (look.row.t,)) : bisect_right(parts, (look.end,))]
            look.within.extend(row for row in inside if row.thread == look.row.thread)
            found.setdefault(key, []).append(look)
    return {key: sorted(looks, key=lambda look: look.row.t) for key, looks in found.items()}


def _of_loaders(log: ProcessLog, iterations: list[Iteration]) -> Iterator[tuple[str, SampledStep]]:
    training = [one for one in iterations if one.role == "train"]
    arrivals = sorted(
        (arrival.next.t, place, one.number, one, arrival)
        for one in training
        for place, arrival in enumerate(one.arrivals)
    )
    for row in log.of(wire.DEVICE_STEP):
        first = bisect_left(arrivals, (row.t,))
        for _, place, _, iteration, arrival in arrivals[first : first + len(training)]:
            same = (arrival.next.thread, arrival.next.loader) == (row.thread, row.loader)
            if same and not row.without_loader:
                yield iteration.loader, _look(row, iteration, place, arrival)
                break


def _look(row: Row, iteration: Iteration, place: int, arrival: SampledArrival) -> SampledStep:
    """The first batch of an iterator is always sampled, and stands for itself. The time to build the iterator
    counts as its wait, too, and as idle time of the device in the same share as the first wait.

    Between its first mark and the loop's wait the agent prepares its sample. In that time the device works
    off what is queued, or idles: either way it idles that much longer than without bdoc.
    """
    before = iteration.arrivals[place - 1].next.arrivals if place else 0
    waited, built = max(1, arrival.next.duration), 0 if place else iteration.build
    ours = min(max(0, row.wait_ns), max(0, arrival.next.t - row.t))
    wait, whole, host = row.wait_ns - ours, row.whole_ns - ours, row.duration - ours
    idle = min(1.0, wait / waited)
    steps = max(1, arrival.next.arrivals - before)
    return SampledStep(row, steps, whole + int(idle * built), wait + int(idle * built), host + built,
                waited + built, arrival.t)  # fmt: skip


def _alone(log: ProcessLog) -> Iterator[tuple[str, SampledStep]]:
    """Of a loop without a loader: from an optimizer step to the next; the wait lasts until a module is
    called."""
    forwards = log.of(wire.FORWARD)
    times = [row.t for row in forwards]
    for row in log.of(wire.DEVICE_STEP):
        place = bisect_right(times, row.t) - 1
        if row.without_loader and place > 0 and forwards[place].thread == row.thread:
            gap = forwards[place]
            steps = max(1, gap.steps - forwards[place - 1].steps)
            host = row.duration, gap.duration
            yield ALONE, SampledStep(row, steps, row.whole_ns, row.wait_ns, *host, gap.end)


LINES_AT_MOST = 64
PINNED, BLOCKING, JUST_MADE, OTHER_STREAM = (1 << place for place in range(4))  # of wire.COPY_BITS
KEPT_BITS = PINNED | BLOCKING | JUST_MADE | OTHER_STREAM
COLUMNS = [one.name for one in fields(DeviceTable) if one.name != "t"]
SAVING = ("checkpoint", "logging")

Weighted = tuple[int, Row]  # steps that it stands for


def tabulate(looks: list[SampledStep], origin: int, at_most: int) -> DeviceTable:
    """One row per sampled step, neighbours merged until there are few enough; sums stay exact."""
    every = 1
    while len(looks) > every * at_most:
        every *= 2
    groups = [looks[place : place + every] for place in range(0, len(looks), every)]
    rows = [[_sums(look) for look in group] for group in groups]
    columns = {name: [sum(row[name] for row in group) for group in rows] for name in COLUMNS}
    return DeviceTable(t=[(group[-1].end - origin) * S for group in groups], **columns)  # type: ignore[arg-type]


def _sums(look: SampledStep) -> dict[str, float]:
    """The columns of one sampled step."""
    steps, judged = look.steps, look.row.caught_up != wire.NOTHING
    copies = [row for row in look.within if row.kind == wire.DEVICE_COPY]
    mine = [row for row in copies if not row.bits & OTHER_STREAM]
    saving = [row for name in SAVING for row in _parts(look, name)]
    device = {
        "wall_s": look.wall, "wait_s": look.wait, "copy_s": _device(mine), "other_s": _device(saving),
        "fetched_s": _device([row for row in mine if row.t < look.got]),
        "backward_s": _device(_parts(look, "backward")), "optimizer_s": _device(_parts(look, "optimizer")),
    }  # fmt: skip
    host = {
        "host_s": look.host, "host_wait_s": look.host_wait, "host_other_s": _host(saving),
        "blocked_s": _host([row for row in copies if row.bits & BLOCKING and row.t >= look.got]),
        "inside_s": _host([row for row in look.within if row.kind == wire.DEVICE_WAIT]),
    }  # fmt: skip
    counts = {
        "steps": steps, "looks": 1, "judged": steps * judged, "caught_up": steps * (look.row.caught_up == 1),
        "heard": steps * look.heard, "copies": steps * len(mine),
    }  # fmt: skip
    return counts | {name: max(0, value) * steps * S for name, value in (device | host).items()}


def _parts(look: SampledStep, name: str) -> list[Row]:
    which = wire.DEVICE_PARTS.index(name)
    return [row for row in look.within if row.kind == wire.DEVICE_PART and row.part == which]


def _device(rows: list[Row]) -> int:
    return sum(max(0, row.device_ns) for row in rows)


def _host(rows: list[Row]) -> int:
    return sum(max(0, row.duration) for row in rows)


def read_copies(log: ProcessLog, looks: list[SampledStep]) -> list[DeviceCopy] | None:
    """Copies to the device by line, largest first; None where no sampled step recorded copies."""
    whole = sum(look.steps for look in looks if look.heard)
    if not whole:
        return None
    groups: dict[tuple[int, int, int], list[Weighted]] = {}
    for steps, row in _heard(looks, wire.DEVICE_COPY):
        groups.setdefault((row.site, row.bits & KEPT_BITS, row.dtype), []).append((steps, row))
    found = []
    for (site, bits, dtype), rows in groups.items():
        place = _site(log, site)
        found.append(DeviceCopy(
            bytes=sum(steps * max(0, row.bytes) for steps, row in rows) / whole,
            count=sum(steps for steps, _ in rows) / whole,
            host_s=sum(steps * row.duration for steps, row in rows) * S / whole,
            device_s=sum(steps * max(0, row.device_ns) for steps, row in rows) * S / whole,
            pinned=bool(bits & PINNED),
            blocking=bool(bits & BLOCKING),
            dtype=wire.DTYPES[dtype] if 0 <= dtype < len(wire.DTYPES) else "",
            file=place.file,
            line=place.line,
            side_stream=bool(bits & OTHER_STREAM),
            made=bool(bits & JUST_MADE),
        ))  # fmt: skip
    return sorted(found, key=lambda one: -one.bytes)[:LINES_AT_MOST]


def read_syncs(
    log: ProcessLog, looks: list[SampledStep], idle_s: dict[int, float] | None
) -> list[DeviceSync] | None:
    """Synchronizing calls by line, longest first. ``idle_s``, the device's idle time per step after each, is
    known only from a profiler's window. Site 0 stands for calls that only the window recorded."""
    whole = sum(look.steps for look in looks if look.heard)
    if not whole or idle_s is None:
        return None
    groups: dict[int, list[Weighted]] = {site: [] for site in idle_s if _site(log, site).kind != "copy"}
    for steps, row in _heard(looks, wire.DEVICE_WAIT):
        groups.setdefault(row.site, []).append((steps, row))
    found = []
    for site, rows in groups.items():
        inside = sum(steps * row.duration for steps, row in rows) * S / whole
        which = rows[0][1].call if rows else -1
        call = wire.WAITS[which] if 0 <= which < len(wire.WAITS) else ""
        count, place = sum(steps for steps, _ in rows) / whole, _site(log, site)
        found.append(DeviceSync(call, count, inside, idle_s.get(site, 0.0), place.file, place.line))
    return sorted(found, key=lambda one: -max(one.inside_s, one.idle_s))[:LINES_AT_MOST]


def emptied(looks: list[SampledStep]) -> float:
    """Calls of ``empty_cache`` per step, over the steps in which they were recorded."""
    which = wire.WAITS.index("empty_cache")
    calls = sum(steps for steps, row in _heard(looks, wire.DEVICE_WAIT) if row.call == which)
    return calls / max(1, sum(look.steps for look in looks if look.heard))


def _heard(looks: list[SampledStep], kind: int) -> Iterator[Weighted]:
    return ((look.steps, row) for look in looks if look.heard for row in look.within if row.kind == kind)


def _site(log: ProcessLog, site: int) -> SiteFact:
    return next((one for one in log.facts_of(SiteFact) if one.site == site), SiteFact())


KIND = re.compile(r"^(?:(?:gpu|mig)-)+")
HIDDEN = Gap(
    "which gpu is which",
    "the training's GPU is none of those that bdoc was shown: its utilisation, power and clocks are unknown",
    "start bdoc with the CUDA_VISIBLE_DEVICES of the training (ROCm: HIP_VISIBLE_DEVICES)",
)
SERIES = re.compile(r"gpu(\d+)_(whole_)?uuid")


@dataclass(frozen=True)
class Drivers:
    """Maps devices to the driver's series, ``gpu0_`` and on."""

    by_uuid: dict[str, int]
    several_ranks: bool

    def find(self, kind: str, uuid: str, index: int) -> int | None:
        """The driver's number of a device; torch's where no UUID is known and only one process has a GPU."""
        if kind != "cuda":  # torch's name of ROCm, too
            return None
        if plain(uuid) in self.by_uuid:
            return self.by_uuid[plain(uuid)]
        known = bool(uuid and self.by_uuid) or self.several_ranks
        return None if known else index


def plain(uuid: str) -> str:
    """A device's UUID without dashes and the prefix that drivers add and torch does not."""
    return KIND.sub("", uuid.lower()).replace("-", "")


def read_drivers(samples: Iterable[Sample], logs: list[ProcessLog]) -> Drivers:
    """From the UUIDs that the driver reports once, at the start. A slice of a GPU goes by its own UUID and,
    where it is the only one, by the GPU's as well: torch may report either."""
    static = [pair for sample in samples if sample.sensor == "gpu_static" for pair in sample.values.items()]
    found = [(SERIES.fullmatch(name), plain(str(uuid))) for name, uuid in static]
    named = [(match[2] is not None, uuid, int(match[1])) for match, uuid in found if match is not None]
    times = Counter(uuid for _, uuid, _ in named)
    of_wholes = {uuid: number for whole, uuid, number in named if whole and times[uuid] == 1}
    own = {uuid: number for whole, uuid, number in named if not whole}
    return Drivers({**of_wholes, **own}, len([log for log in logs if log.facts_of(DeviceFact)]) > 1)


def find_hidden(drivers: Drivers, devices: list[DeviceFacts]) -> list[Gap]:
    """``HIDDEN`` where no series were read for a GPU that the training uses."""
    return [HIDDEN] if drivers.by_uuid and any(one.uuid and one.driver is None for one in devices) else []


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
            # The longest loop, as the analysis chooses.
            key, looks = max(
                every, key=lambda loop: sum(one.host * one.steps for one in loop[1]), default=none
            )
            found.append((sum(look.steps for look in looks), log, key, looks))
    found.sort(key=lambda one: -one[0])
    facts: list[DeviceFacts] = []
    for _, log, key, looks in found[: 1 + OTHERS_AT_MOST]:
        traced = traces.get(log.pid)
        mine = traced is not None and any(look.row.loader == traced.loader for look in looks)
        trace = traced.table if traced is not None and mine else None
        known = _facts(log, key, looks, iterations[log.pid], drivers, trace)
        table = tabulate(looks, origin, ROWS_OF_OTHERS if facts else ROWS_AT_MOST)
        facts.append(replace(known, table=table))
    return (facts[0], facts[1:]) if facts else (None, [])


def _facts(
    log: ProcessLog, key: str, looks: list[SampledStep], iterations: list[Iteration], drivers: Drivers,
    trace: TraceTable | None,
) -> DeviceFacts:  # fmt: skip
    fact = log.first(DeviceFact)
    ends = accumulate(look.steps for look in looks)
    cold = min(WARM_STEPS, int(WARM_SHARE * sum(look.steps for look in looks)))
    warm = [look for look, end in zip(looks, ends, strict=True) if end > cold]
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
        allocator=_allocator(log, warm, key, iterations),
        switches=_switches(log, trace),
        kind=fact.kind,
        uuid=fact.uuid,
        driver=drivers.find(fact.kind, fact.uuid, fact.index),
        pid=log.pid,
        loader=key,
        least_pair_s=max(0, min((look.row.wait_ns for look in looks), default=0)) * S,
        silent=log.first(DeviceSilentFact).why,
        **traced,
    )


def _allocator(
    log: ProcessLog, looks: list[SampledStep], key: str, iterations: list[Iteration]
) -> Allocator | None:
    """The rise of its counters over the steady steps, those without a look as well; only the peak where there
    are too few readings."""
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
    counts = [
        [one.next.arrivals for one in each.arrivals if first.t <= one.next.end < last.t]
        for each in iterations if each.loader == key
    ]  # fmt: skip
    if key == ALONE:
        counts = [[row.steps for row in log.of(wire.FORWARD) if first.t <= row.t < last.t]]
    steps = sum(seen[-1] - seen[0] + 1 for seen in counts if seen)
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
