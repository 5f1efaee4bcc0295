"""What each loader worker did: its fetches by the kernel's books, handing over, and having nothing to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ..model.picture import Fetches
from .inputs import BlockedSplit
from .lane import LanePiece, clipped, in_turn, one_at_a_time

Waits = Mapping[int, LanePiece]  # the loop's wait for each batch


@dataclass(frozen=True)
class _Fetch:
    """One row of the table, and where it lies."""

    place: int
    number: int
    batch: int | None
    begin: float
    end: float


def fetch_pieces(table: Fetches, place: int, split: BlockedSplit, batch: int | None) -> list[LanePiece]:
    """A fetch in parts that sum to its length: collating comes last, the rest stands in a fixed order. Other
    threads of the process computed while this one slept: that is CPU, not waiting."""
    wall = table.wall_s[place]
    collate = min(wall, table.collate_s[place])
    left = wall - collate
    cpu = min(left, max(0.0, table.cpu_s[place] - min(table.collate_cpu_s[place], collate)))
    left -= cpu
    queue = min(left, table.runq_s[place] or 0.0)
    left -= queue
    pooled = min(left, table.other_cpu_s[place])
    left -= pooled
    storage, network = left * split.storage, left * split.network
    lengths = (
        ("cpu", cpu + pooled), ("storage", storage), ("network", network),
        ("blocked", max(0.0, left - storage - network)), ("queue", queue), ("collate", collate),
    )  # fmt: skip
    return in_turn(table.t[place], batch, lengths)


def worker_lanes(
    table: Fetches, split: BlockedSplit, waits: Waits, begin: float, end: float
) -> dict[int, list[LanePiece]]:
    """The pieces of each worker's lane, by its number; a fetch under way at either end is whole."""
    lanes: dict[int, list[_Fetch]] = {}
    for place, worker in enumerate(table.worker):
        if worker >= 0:
            t, wall = table.t[place], table.wall_s[place]
            one = _Fetch(place, table.number[place], table.batch[place], t, t + wall)
            lanes.setdefault(worker, []).append(one)
    return {worker: _lane(table, lanes[worker], split, waits, begin, end) for worker in sorted(lanes)}


def _lane(
    table: Fetches, fetches: list[_Fetch], split: BlockedSplit, waits: Waits, begin: float, end: float
) -> list[LanePiece]:
    found: list[LanePiece] = []
    for one, later in pairwise([*fetches, None]):
        assert one is not None
        if one.end > begin and one.begin < end:
            found += fetch_pieces(table, one.place, split, one.batch)
        found += clipped(_after(one, later, waits), max(begin, one.end), end)
    return one_at_a_time(found)


def _after(one: _Fetch, later: _Fetch | None, waits: Waits) -> list[LanePiece]:
    """What a worker did between two fetches. It takes the next order as soon as there is one, so what is not
    handing over is having none. A new process in its place says nothing of the time before."""
    if later is not None and later.number > one.number + 1:
        return [LanePiece(one.end, later.begin, "unseen")]
    free = later.begin if later is not None else float("inf")
    awaited = waits.get(one.batch) if one.batch is not None else None
    given = one.end
    if awaited is not None and awaited.begin <= one.end < awaited.end:
        given = min(awaited.end, free)
    handing = [LanePiece(one.end, given, "hand over", one.batch)]
    same = later is not None and later.number == one.number + 1
    return [*handing, LanePiece(given, free, "idle")] if same else handing
