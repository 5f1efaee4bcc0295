"""Divides the device's idle time by cause: what the loop did from one kernel's end to the next launch.

An idle device waits for the host if the next kernel was launched after the last one had ended. What the
launching thread and the loop's thread did in the gap then says why; time that no operator or mark covers
counts as issuing work, or goes to the synchronizing call that let the device run out of work. If the next
kernel was queued already, a short gap is the device's own; a long one is for something that the trace lacks.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import takewhile

from .kernels import kind_of
from .stretches import Stretch, gaps, joined, length, shared
from .trace_file import DeviceTimeline, DeviceWork, Range, RuntimeCall

NAMED = re.compile(r"bdoc#(\w+)#(\d+)")
INPUT = ("enumerate(DataLoader)", "bdoc#next#")
OTHER = ("bdoc#checkpoint#", "bdoc#logging#", "bdoc#gc#")
WAITS = re.compile(r"Synchronize|^(cuda|hip)Memcpy(?!.*Async)")
MEMORY = re.compile(
    r"(cuda|hip)(Malloc|Free|HostAlloc|HostRegister)(?!Async)|cuMem(Create|Map|Unmap|Release|Alloc|Free)"
)
BEHIND_US = 20.0  # a kernel that waited for a copy begins so soon after it (chosen; 1 to 5 us are usual)
# A launch, a copy's call, or the way from one queued kernel to the next: a longer one waits for something
# (chosen; 5 us are usual).
LONG_US = 100.0


@dataclass(frozen=True)
class HostTrace:
    """The host's side of a trace, indexed: joined stretches of the loop's thread, and calls that wait."""

    input: list[Stretch]
    other: list[Stretch]
    copying: list[Stretch]
    memory: list[Stretch]
    full: list[Stretch]  # launches that waited for room in the device's queue, if it was busy then
    waits: list[tuple[float, float, int, str]]  # begin, end, site, "sync" or "memory"
    launched: dict[int, RuntimeCall]  # by correlation


@dataclass
class Idle:
    """Microseconds of idle time by cause, and that after waits by their site; ``own``: the device's own."""

    parts: dict[str, float] = field(default_factory=dict)
    by_site: dict[int, float] = field(default_factory=dict)

    def add(self, cause: str, taken: float, site: int = 0) -> None:
        """Add idle time to a cause."""
        self.parts[cause] = self.parts.get(cause, 0.0) + taken
        if cause == "sync":
            self.by_site[site] = self.by_site.get(site, 0.0) + taken


def read_host(timeline: DeviceTimeline, threads: set[str]) -> HostTrace:
    """What these threads did: the loop's, and those that run its backward passes."""
    ranges = [one for one in timeline.ranges if one.thread in threads]
    calls = [one for one in timeline.calls if one.thread in threads]
    named = [one for one in ranges if one.name.startswith("bdoc#")]
    copies = {one.correlation for one in timeline.work if one.sort == "memcpy" and "HtoD" in one.name}
    waits = [
        (one.begin, one.end, _site(named, one), "memory" if MEMORY.search(one.name) else "sync")
        for one in calls
        if WAITS.search(one.name) or MEMORY.search(one.name) or ("Memcpy" in one.name and _long(one))
    ]
    return HostTrace(
        input=joined((one.begin, one.end) for one in ranges if one.name.startswith(INPUT)),
        other=joined((one.begin, one.end) for one in named if one.name.startswith(OTHER)),
        copying=joined((one.begin, one.end) for one in calls if one.correlation in copies and _long(one)),
        memory=joined((one.begin, one.end) for one in calls if MEMORY.search(one.name)),
        full=joined((one.begin, one.end) for one in calls if "Launch" in one.name and _long(one)),
        waits=sorted(waits),
        launched={one.correlation: one for one in timeline.calls if one.correlation},
    )


def _long(call: RuntimeCall) -> bool:
    return call.end - call.begin > LONG_US


def _site(named: list[Range], call: RuntimeCall) -> int:
    """The site of the hook in which the call was made, the innermost; 0 where there was none."""
    place = bisect_right(named, call.begin, key=lambda one: one.begin)
    for one in reversed(named[max(0, place - 8) : place]):
        found = NAMED.fullmatch(one.name)
        if found and one.end >= call.begin and one.thread == call.thread and found[1] in ("wait", "copy"):
            return int(found[2])
    return 0


def waiting(host: HostTrace, busy: list[Stretch]) -> list[Stretch]:
    """Time that the host did not need to issue work: it waited, for data or the device, or did other work."""
    waits = ((begin, end) for begin, end, _, _ in host.waits)
    full = (one for begin, end in host.full for one in shared(busy, begin, end))
    return joined([*host.input, *host.other, *host.copying, *waits, *full])


def share_out(
    timeline: DeviceTimeline, host: HostTrace, busy: list[Stretch], begin: float, end: float
) -> Idle:
    """Every gap between stretches of ``busy`` in [begin, end), divided."""
    idle = Idle()
    computing = [one for one in timeline.work if computes(one)]
    begins = [one.begin for one in computing]
    collectives = joined((one.begin, one.end) for one in timeline.work if is_collective(one))
    copies = [one for one in timeline.work if one.sort == "memcpy" and "HtoD" in one.name]
    copies.sort(key=lambda one: one.end)
    for first, last in gaps(busy, begin, end):
        place = bisect_left(begins, last)
        call = host.launched.get(computing[place].correlation) if place < len(computing) else None
        free = _minus([(first, last)], collectives, "collective", idle)
        free = _minus(free, _awaited(copies, first, last, call), "transfer", idle)
        if call is not None and call.begin < first:
            left = length(free)
            idle.add("own" if left <= LONG_US else "unexplained", left)
        else:
            _of_host(free, host, first, call.begin if call is not None else last, idle)
    return idle


def _awaited(copies: list[DeviceWork], first: float, last: float, call: RuntimeCall | None) -> list[Stretch]:
    """The copies to the device that the kernel at the gap's end waited for: it was launched before the last
    of them ended, and begins right after it. No kernel waits for the copies of a prefetching stream."""
    place = bisect_right(copies, last, key=lambda one: one.end)
    newest = copies[place - 1] if place else None
    if newest is None or last - newest.end > BEHIND_US or (call is not None and call.begin > newest.end):
        return []
    within = takewhile(lambda one: one.end > first, reversed(copies[:place]))
    return joined((one.begin, one.end) for one in within if one.stream == newest.stream)


def _of_host(free: list[Stretch], host: HostTrace, first: float, launch: float, idle: Idle) -> None:
    """The device waits for the host: until the launch what it did counts, then the launch's own way."""
    before = [(begin, min(end, launch)) for begin, end in free if begin < launch]
    causes = {"other": host.other, "input": host.input, "memory": host.memory, "transfer": host.copying}
    for cause, taken in causes.items():
        before = _minus(before, taken, cause, idle)
    left = length(before) + sum(end - max(begin, launch) for begin, end in free if end > launch)
    # The wait during which the device ran out of work; without one, the host issues too slowly.
    place = bisect_right(host.waits, first, key=lambda one: one[0])
    recent = reversed(host.waits[max(0, place - 8) : place])
    wait = next((one for one in recent if one[0] < first <= one[1]), (0.0, 0.0, 0, "launch"))
    idle.add(wait[3], left, wait[2])


def _minus(free: list[Stretch], taken: list[Stretch], cause: str, idle: Idle) -> list[Stretch]:
    """Charge these stretches of the free time to the cause; return the free time that is left."""
    left: list[Stretch] = []
    for begin, end in free:
        found = length(shared(taken, begin, end))
        if found:
            idle.add(cause, found)
            left += gaps(taken, begin, end)
        else:
            left.append((begin, end))
    return left


def is_collective(work: DeviceWork) -> bool:
    """Whether it exchanges with other ranks."""
    return work.sort == "kernel" and kind_of(work.name) == "communication"


def computes(work: DeviceWork) -> bool:
    """Whether it is the device's own work: neither a copy from or to the host nor an exchange."""
    if work.sort == "memcpy":
        return "DtoD" in work.name
    return not is_collective(work)
