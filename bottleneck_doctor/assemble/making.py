"""Sums up, for each loader, what hooks inside fetches and draws of indices wrote down."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from statistics import fmean, median

from ..agent import wire
from ..model.making import Making
from .fetches import Crew
from .loaders import Numbering
from .rows import Diary, Row
from .steps import S

EPOCHS_AT_MOST = 256
NAMES_AT_MOST = 32
UNPACK, TRANSFORM, SAMPLER = (wire.MAKINGS.index(name) for name in ("unpack", "transform", "sampler"))


def read_making(key: str, crews: list[Crew], diaries: list[Diary], numbering: Numbering) -> Making:
    """The loader's own draws stand in the process that built it, everything else with those who fetched."""
    fetches = sum(_for(crew, row) for crew in crews for row in crew.diary.by_kind.get(wire.FETCH, ()))
    unpacks = [row for crew in crews for row in _rows(crew, UNPACK)]
    draws = [
        row
        for diary in diaries
        for row in diary.by_kind.get(wire.MAKING, ())
        if row.c == SAMPLER and numbering.get((diary.pid, row.thing)) == key
    ]
    usual, first = [row for row in draws if not row.d], [row for row in draws if row.d]
    return Making(
        loader=key,
        batches=fetches,
        unpack_cpu_s=sum(row.a for row in unpacks) * S / max(1, fetches),
        unpacked_bytes=sum(row.b for row in unpacks) / max(1, fetches),
        transforms=_transforms(crews),
        draw_s=fmean([row.duration for row in usual]) * S if usual else None,
        draw_cpu_s=fmean([row.a for row in usual]) * S if usual else None,
        first_draws_s=_first_draws(first, usual),
        firstlings=_firstlings(crews),
    )


def _for(crew: Crew, row: Row) -> bool:
    return crew.thing is None or crew.thing == row.thing


def _rows(crew: Crew, kind: int) -> list[Row]:
    makings = crew.diary.by_kind.get(wire.MAKING, ())
    return [row for row in makings if row.c == kind and _for(crew, row)]


def _transforms(crews: list[Crew]) -> dict[str, float]:
    """Mean CPU per batch by class, over the fetches whose transforms were timed."""
    spent: dict[str, int] = defaultdict(int)
    timed = 0
    for crew in crews:
        names = {
            one.get("number"): str(one.get("name"))
            for one in crew.diary.facts
            if one.get("fact") == "transform"
        }
        rows = _rows(crew, TRANSFORM)
        timed += len({row.t for row in rows})
        for row in rows:
            spent[names.get(row.d, "?")] += row.a
    found = sorted(spent.items(), key=lambda item: -item[1])[:NAMES_AT_MOST]
    return {name: total * S / timed for name, total in found}


def _first_draws(first: list[Row], usual: list[Row]) -> list[float]:
    """What the draws at each epoch's start took beyond as many usual ones: shuffling, weighing, sorting.

    An epoch writes two rows, from building its iterator and from its first batch.
    """
    each = median([row.duration / max(1, row.b) for row in usual]) if usual else 0.0
    rows = sorted(first, key=lambda row: row.t)[: 2 * EPOCHS_AT_MOST]
    return [max(0.0, row.duration - each * row.b) * S for row in rows]


def _firstlings(crews: list[Crew]) -> tuple[int, int]:
    """Of two workers' first batches, those at the same place: how many, and how many with the same content.

    A worker whose batches are all alike says nothing: two such workers would agree on anything.
    """
    seen = [
        {row.b: row.a for row in crew.diary.by_kind.get(wire.FIRSTLING, ()) if _for(crew, row)}
        for crew in crews
    ]
    telling = [batches for batches in seen if len(set(batches.values())) > 1]
    compared = equal = 0
    for one, other in combinations(telling[:16], 2):
        both = one.keys() & other.keys()
        compared += len(both)
        equal += sum(one[place] == other[place] for place in both)
    return compared, equal
