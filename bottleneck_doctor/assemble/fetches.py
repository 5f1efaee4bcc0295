"""Builds, for each loader, the table of fetches, what its batches are made of, and which samples repeat."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from ..agent import wire
from ..model.profile import FetchTable, Payload, Repeats
from .loaders import Numbering
from .rows import Diary, Row
from .steps import S

FETCHES_AT_MOST = 4096
FULL_SAMPLE = 1 << 16


@dataclass(frozen=True)
class Crew:
    """Who fetched for a loader: (diary, worker number, the loader's number there or None for all)."""

    diary: Diary
    worker: int
    thing: int | None


def find_crews(diaries: list[Diary], numbering: Numbering) -> dict[str, list[Crew]]:
    """The processes that made batches for each loader; worker -1 is the training process itself."""
    crews: dict[str, list[Crew]] = {}
    owners: dict[int, tuple[str, int]] = {}
    for diary in diaries:
        for row in diary.of(wire.WORKERS):
            owners[row.a] = (numbering.get((diary.pid, row.thing), ""), row.b)
        inline = {row.thing for row in diary.rows if row.kind == wire.FETCH and row.thing}
        for thing in inline:
            crews.setdefault(numbering.get((diary.pid, thing), ""), []).append(Crew(diary, -1, thing))
    for diary in diaries:
        if diary.pid in owners and diary.first("worker"):
            key, number = owners[diary.pid]
            crews.setdefault(key, []).append(Crew(diary, number, None))
    return {key: crew for key, crew in crews.items() if key}


def read_fetches(key: str, crews: list[Crew], origin: int, at_most: int = FETCHES_AT_MOST) -> FetchTable:
    """A uniform sample of the loader's fetches in order of time."""
    triples = []
    opened: dict[tuple[int, int], Row] = {}
    seen = 0
    for crew in crews:
        mine = list(books_of(crew))
        triples += [(fetch, batch, count, crew.worker) for fetch, batch, count in mine]
        opened |= {(crew.worker, row.t): row for row in crew.diary.of(wire.CONTAINER) if _for(crew, row)}
        seen += max((count.a for _, _, count in mine), default=0) if crew.thing is None else 0
        seen += len(mine) if crew.thing is not None else 0
    triples.sort(key=lambda triple: triple[0].t)
    every = -(-len(triples) // at_most) or 1
    table = FetchTable(loader=key, seen=seen)
    for fetch, batch, count, worker in triples[::every]:
        _append(table, fetch, batch, count, worker, origin)
        _append_containers(table, opened.get((worker, fetch.t)))
    return table


def books_of(crew: Crew, wanted: Container[int] | None = None) -> list[tuple[Row, Row, Row]]:
    """FETCH, BATCH and COUNT of each fetch, which share their start; of all fetches, or of those that began
    at ``wanted`` instants."""
    found: dict[int, dict[int, Row]] = {}
    for row in crew.diary.rows:
        if wanted is not None and row.t not in wanted:
            continue
        if row.kind in (wire.FETCH, wire.BATCH, wire.COUNT) and crew.thing in (None, row.thing):
            found.setdefault(row.t, {})[row.kind] = row
    return [
        (rows[wire.FETCH], rows[wire.BATCH], rows[wire.COUNT]) for rows in found.values() if len(rows) == 3
    ]


def _append(table: FetchTable, fetch: Row, batch: Row, count: Row, worker: int, origin: int) -> None:
    table.t.append((fetch.t - origin) * S)
    table.worker.append(worker)
    table.wall_s.append(fetch.duration * S)
    table.cpu_s.append(min(fetch.a, fetch.duration) * S)
    table.other_cpu_s.append(max(0, fetch.c - fetch.a) * S)
    table.system_s.append(max(0, batch.d) * S)
    table.runq_s.append(_known(fetch.b, S))
    table.storage_bytes.append(_count(fetch.d))
    table.read_bytes.append(_count(batch.c))
    table.reads.append(_count(count.c))
    table.major_faults.append(max(0, fetch.e))
    table.collate_s.append(batch.duration * S)
    table.collate_cpu_s.append(max(0, batch.a) * S)
    table.decode_s.append(max(0, batch.e) * S)
    table.opens.append(_count(count.b))
    table.minor_faults.append(_count(count.d))
    table.samples.append(max(0, batch.b))


def _append_containers(table: FetchTable, row: Row | None) -> None:
    table.containers.append(row.a if row else 0)
    table.container_s.append(row.duration * S if row else 0.0)
    table.container_cpu_s.append(row.b * S if row else 0.0)


def _known(value: int, unit: float) -> float | None:
    return None if value < 0 else value * unit


def _count(value: int) -> int | None:
    return None if value < 0 else value


def read_payload(key: str, crews: list[Crew]) -> Payload | None:
    """Means over the batches whose content or serialisation was looked at."""
    cargo = [row for crew in crews for row in crew.diary.by_kind.get(wire.CARGO, ()) if _for(crew, row)]
    pickles = [row for crew in crews for row in crew.diary.by_kind.get(wire.PICKLE, ())]
    if not cargo:
        return None
    return Payload(
        loader=key,
        batches=len(cargo),
        tensors=_mean([row.a for row in cargo]),
        tensor_bytes=_mean([row.b for row in cargo]),
        other_bytes=_mean([row.c for row in cargo]),
        pipe_bytes=_mean([row.b for row in pickles]),
        serialise_cpu_s=_mean([row.a for row in pickles]) * S,
        element_bytes=_mean([row.d for row in cargo]),
    )


def _for(crew: Crew, row: Row) -> bool:
    return crew.thing is None or crew.thing == row.thing


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def read_repeats(key: str, crews: list[Crew]) -> Repeats | None:
    """Compare the checksums of indices that were fetched more than once."""
    samples: dict[int, list[Row]] = {}
    for crew in crews:
        for row in crew.diary.rows:
            if row.kind == wire.SAMPLE and _for(crew, row):
                samples.setdefault(row.a, []).append(row)
    if not samples:
        return None
    again = [rows for rows in samples.values() if len(rows) > 1]
    equal = sum(len({(row.b, row.c) for row in rows}) == 1 for rows in again)
    sizes = [row.c for rows in samples.values() for row in rows]
    return Repeats(key, indices=len(samples), compared=len(again), equal=equal, sample_bytes=_mean(sizes))
