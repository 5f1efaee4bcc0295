"""Finds and reads the traces that kineto left in the run's folder, and which of their steps are whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..model.codec import read_foreign

BYTES_AT_MOST = 256 << 20  # two eager steps of a language model with 7 billion weights take half of it
EVENTS_AT_MOST = 3_000_000
NAME_AT_MOST = 512  # characters: names of templates run to thousands

WORK = {"kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy",
        "gpu_memset": "memset", "memset": "memset"}  # fmt: skip
CALLS = {"cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "xpu_driver"}  # ROCm's are cuda_runtime
RANGES = {"cpu_op", "operator", "user_annotation"}
KEPT = {*WORK, *CALLS, *RANGES}
PLAIN = bytes(one if one >= 32 else 32 for one in range(256))  # control characters in names are no JSON


@dataclass
class Event:
    """What is read of an event; nothing of it is believed yet."""

    ph: Any = ""
    cat: Any = ""
    name: Any = ""
    ts: Any = None
    dur: Any = None
    pid: Any = 0
    tid: Any = 0
    args: Any = None


@dataclass
class Events:
    """A trace's file; other parts of it are skipped."""

    traceEvents: list[Event]


class DeviceWork(NamedTuple):
    """Something that the device did. ``blocks`` per multiprocessor, where the trace says so."""

    begin: float
    end: float
    name: str
    sort: str  # kernel, memcpy, memset
    stream: str
    correlation: int  # of the call that launched it
    operator: int  # in which that call was
    blocks: float | None


class RuntimeCall(NamedTuple):
    """A call of the device's runtime by a thread of the host."""

    begin: float
    end: float
    name: str
    thread: str
    correlation: int


class Range(NamedTuple):
    """A named range of a host thread: an operator, with its arguments, or a user's ``record_function``."""

    begin: float
    end: float
    name: str
    thread: str
    number: int
    given: dict[str, Any]


@dataclass(frozen=True)
class DeviceTimeline:
    """One device's work, and what the process did in that time."""

    work: list[DeviceWork] = field(default_factory=list)
    calls: list[RuntimeCall] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)


def read_timeline(source: Path | str) -> DeviceTimeline | None:
    """The trace in a file (``Path``) or a text."""
    try:
        if isinstance(source, Path):
            if source.stat().st_size > BYTES_AT_MOST:
                return None
            source = source.read_bytes().translate(PLAIN).decode("utf-8", "replace")
        events = read_foreign(source, Events).traceEvents
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    return _sorted([one for one in events if _sound(one)]) if len(events) <= EVENTS_AT_MOST else None


def _sound(event: Event) -> bool:
    """Whether it is a complete event of a kind that is read, with a place in time."""
    if event.ph != "X" or not isinstance(event.name, str) or str(event.cat).lower() not in KEPT:
        return False
    times = (event.ts, event.dur)
    return all(isinstance(one, (int, float)) and 0 <= one < 1e18 for one in times)  # and NaN is not


def _sorted(events: list[Event]) -> DeviceTimeline | None:
    if not events:
        return None
    origin = min(event.ts for event in events)
    work: dict[str, list[DeviceWork]] = {}
    calls: list[RuntimeCall] = []
    ranges: list[Range] = []
    for event in events:
        begin = float(event.ts - origin)
        end, name = begin + float(event.dur), event.name[:NAME_AT_MOST]
        category = str(event.cat).lower()
        given = event.args if isinstance(event.args, dict) else {}
        number = _number(given.get("External id", given.get("external id")))
        correlation = _number(given.get("correlation"))
        if category in WORK:
            device, stream = str(given.get("device", event.pid)), str(given.get("stream", event.tid))
            per_sm = given.get("blocks per SM")
            blocks = float(per_sm) if isinstance(per_sm, (int, float)) and 0 < per_sm < math.inf else None
            one = DeviceWork(begin, end, name, WORK[category], stream, correlation, number, blocks)
            work.setdefault(device, []).append(one)
        elif category in CALLS:
            calls.append(RuntimeCall(begin, end, name, str(event.tid), correlation))
        elif category in RANGES:
            ranges.append(Range(begin, end, name, str(event.tid), number, given))
    # A process trains on one device: that which had most of the work.
    ours = max(work.values(), key=lambda mine: sum(one.end - one.begin for one in mine), default=[])
    here = {one.correlation for one in ours}
    elsewhere = {one.correlation for some in work.values() if some is not ours for one in some} - here
    calls = [one for one in calls if one.correlation not in elsewhere]  # those for other devices
    return DeviceTimeline(sorted(ours), sorted(calls), sorted(ranges, key=lambda one: (one.begin, -one.end)))


def _number(value: Any) -> int:
    return value if type(value) is int and 0 < value < 1 << 63 else 0
