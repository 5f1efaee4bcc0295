"""Puts looks at the device's clock into a table, and their copies and waits together by the user's line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from ..agent import wire
from ..model.device import DeviceCopy, DeviceSync, DeviceTable
from .looks import Look
from .rows import Diary, Row
from .steps import S

LINES_AT_MOST = 64
PINNED, BLOCKING, JUST_MADE, OTHER_STREAM = (1 << place for place in range(4))  # of wire.COPY_BITS
KEPT_BITS = PINNED | BLOCKING | JUST_MADE | OTHER_STREAM
COLUMNS = [one.name for one in fields(DeviceTable) if one.name != "t"]
SAVING = ("checkpoint", "logging")
EMPTYING = wire.WAITS.index("empty_cache")

Weighted = tuple[int, Row]  # steps that it stands for


def tabulate(looks: list[Look], origin: int, at_most: int) -> DeviceTable:
    """One row per look, neighbours merged until there are few enough; sums stay exact."""
    rows = [((look.end - origin) * S, _sums(look)) for look in looks]
    while len(rows) > at_most:
        rows = [_merged(rows[place : place + 2]) for place in range(0, len(rows), 2)]
    columns = {name: [row[name] for _, row in rows] for name in COLUMNS}
    return DeviceTable(t=[t for t, _ in rows], **columns)  # type: ignore[arg-type]


def _merged(pair: list[tuple[float, dict[str, float]]]) -> tuple[float, dict[str, float]]:
    return pair[-1][0], {name: sum(row[name] for _, row in pair) for name in COLUMNS}


def _sums(look: Look) -> dict[str, float]:
    """The columns of one look."""
    steps, judged = look.steps, look.row.d != wire.NOTHING
    copies = [row for row in look.within if row.kind == wire.DEVICE_COPY]
    mine = [row for row in copies if not row.d & OTHER_STREAM]
    saving = [row for name in SAVING for row in _parts(look, name)]
    device = {
        "wall_s": look.wall, "wait_s": look.wait, "copy_s": _device(mine), "other_s": _device(saving),
        "fetched_s": _device([row for row in mine if row.t < look.got]),
        "backward_s": _device(_parts(look, "backward")), "optimizer_s": _device(_parts(look, "optimizer")),
    }  # fmt: skip
    host = {
        "host_s": look.host, "host_wait_s": look.host_wait, "host_other_s": _host(saving),
        "blocked_s": _host([row for row in copies if row.d & BLOCKING and row.t >= look.got]),
        "inside_s": _host([row for row in look.within if row.kind == wire.DEVICE_WAIT]),
    }  # fmt: skip
    counts = {
        "steps": steps, "looks": 1, "judged": steps * judged, "caught_up": steps * (look.row.d == 1),
        "heard": steps * look.heard, "copies": steps * len(mine),
    }  # fmt: skip
    return counts | {name: max(0, value) * steps * S for name, value in (device | host).items()}


def _parts(look: Look, name: str) -> list[Row]:
    which = wire.DEVICE_PARTS.index(name)
    return [row for row in look.within if row.kind == wire.DEVICE_PART and row.c == which]


def _device(rows: list[Row]) -> int:
    return sum(max(0, row.a) for row in rows)


def _host(rows: list[Row]) -> int:
    return sum(max(0, row.duration) for row in rows)


def read_copies(diary: Diary, looks: list[Look]) -> list[DeviceCopy] | None:
    """Copies to the device by line, largest first; None where nobody listened."""
    whole = sum(look.steps for look in looks if look.heard)
    if not whole:
        return None
    groups: dict[tuple[int, int, int], list[Weighted]] = {}
    for steps, row in _heard(looks, wire.DEVICE_COPY):
        groups.setdefault((row.thing, row.d & KEPT_BITS, row.e), []).append((steps, row))
    found = []
    for (site, bits, dtype), rows in groups.items():
        file, line = _place(diary, site)
        found.append(DeviceCopy(
            bytes=sum(steps * max(0, row.b) for steps, row in rows) / whole,
            count=sum(steps for steps, _ in rows) / whole,
            host_s=sum(steps * row.duration for steps, row in rows) * S / whole,
            device_s=sum(steps * max(0, row.a) for steps, row in rows) * S / whole,
            pinned=bool(bits & PINNED),
            blocking=bool(bits & BLOCKING),
            dtype=wire.DTYPES[dtype] if 0 <= dtype < len(wire.DTYPES) else "",
            file=file,
            line=line,
            side_stream=bool(bits & OTHER_STREAM),
            made=bool(bits & JUST_MADE),
        ))  # fmt: skip
    return sorted(found, key=lambda one: -one.bytes)[:LINES_AT_MOST]


def read_syncs(diary: Diary, looks: list[Look], idle_s: dict[int, float] | None) -> list[DeviceSync] | None:
    """Calls that wait for the device by line, longest first; ``idle_s`` is what followed on each site per
    step, by a profiler's window, without which it is not known. Site 0 are calls that only the window saw."""
    whole = sum(look.steps for look in looks if look.heard)
    if not whole or idle_s is None:
        return None
    groups: dict[int, list[Weighted]] = {site: [] for site in idle_s if not _is_copy(diary, site)}
    for steps, row in _heard(looks, wire.DEVICE_WAIT):
        groups.setdefault(row.thing, []).append((steps, row))
    found = []
    for site, rows in groups.items():
        inside = sum(steps * row.duration for steps, row in rows) * S / whole
        which = rows[0][1].b if rows else -1
        call = wire.WAITS[which] if 0 <= which < len(wire.WAITS) else ""
        count = sum(steps for steps, _ in rows) / whole
        found.append(DeviceSync(call, count, inside, idle_s.get(site, 0.0), *_place(diary, site)))
    return sorted(found, key=lambda one: -max(one.inside_s, one.idle_s))[:LINES_AT_MOST]


def emptied(looks: list[Look]) -> float:
    """Calls of ``empty_cache`` per step, by the steps that were listened to."""
    calls = sum(steps for steps, row in _heard(looks, wire.DEVICE_WAIT) if row.b == EMPTYING)
    return calls / max(1, sum(look.steps for look in looks if look.heard))


def _heard(looks: list[Look], kind: int) -> Iterator[Weighted]:
    return ((look.steps, row) for look in looks if look.heard for row in look.within if row.kind == kind)


def _place(diary: Diary, site: int) -> tuple[str, int]:
    fact = _site(diary, site)
    return str(fact.get("file", "")), int(fact.get("line") or 0)


def _is_copy(diary: Diary, site: int) -> bool:
    return _site(diary, site).get("kind") == "copy"


def _site(diary: Diary, site: int) -> dict[str, Any]:
    facts = (fact for fact in diary.facts if fact.get("fact") == "site" and fact.get("site") == site)
    return next(facts, {})
