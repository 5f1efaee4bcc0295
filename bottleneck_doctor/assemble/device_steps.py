"""Reads the sampled steps of the device's clock into a table; copies and waits go by the user's line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

from ..agent import wire
from ..model.device import DeviceCopy, DeviceSync, DeviceTable
from .facts import SiteFact
from .loaders import Iteration, SampledArrival
from .rows import ProcessLog, Row, S

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
