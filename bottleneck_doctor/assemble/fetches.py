"""Builds, for each loader, the table of fetches, and sums up what hooks inside of fetches wrote down."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePosixPath
from statistics import fmean, median

from ..agent import wire
from ..model.fetches import FetchTable, HotFiles, Making, Payload, Repeats
from ..model.instruments import Sample
from .loaders import Numbering
from .rows import ProcessLog, Row
from .steps import S

EPOCHS_AT_MOST = 256
NAMES_AT_MOST = 32
UNPACK, TRANSFORM, SAMPLER = (wire.MAKINGS.index(name) for name in ("unpack", "transform", "sampler"))


def read_making(key: str, fetchers: list[Fetcher], logs: list[ProcessLog], numbering: Numbering) -> Making:
    """The loader's own draws stand in the process that built it, everything else with those who fetched."""
    fetches = sum(
        _for(fetcher, row) for fetcher in fetchers for row in fetcher.log.by_kind.get(wire.FETCH, ())
    )
    unpacks = [row for fetcher in fetchers for row in _rows(fetcher, UNPACK)]
    draws = [
        row
        for log in logs
        for row in log.by_kind.get(wire.MAKING, ())
        if row.c == SAMPLER and numbering.get((log.pid, row.thing)) == key
    ]
    usual, first = [row for row in draws if not row.d], [row for row in draws if row.d]
    return Making(
        loader=key,
        batches=fetches,
        unpack_cpu_s=sum(row.a for row in unpacks) * S / max(1, fetches),
        unpacked_bytes=sum(row.b for row in unpacks) / max(1, fetches),
        transforms=_transforms(fetchers),
        draw_s=fmean([row.duration for row in usual]) * S if usual else None,
        draw_cpu_s=fmean([row.a for row in usual]) * S if usual else None,
        first_draws_s=_first_draws(first, usual),
        firstlings=_firstlings(fetchers),
    )


def _for(fetcher: Fetcher, row: Row) -> bool:
    return fetcher.thing is None or fetcher.thing == row.thing


def _rows(fetcher: Fetcher, kind: int) -> list[Row]:
    makings = fetcher.log.by_kind.get(wire.MAKING, ())
    return [row for row in makings if row.c == kind and _for(fetcher, row)]


def _transforms(fetchers: list[Fetcher]) -> dict[str, float]:
    """Mean CPU per batch by class, over the fetches whose transforms were timed."""
    spent: dict[str, int] = defaultdict(int)
    timed = 0
    for fetcher in fetchers:
        names = {
            one.get("number"): str(one.get("name"))
            for one in fetcher.log.facts
            if one.get("fact") == "transform"
        }
        rows = _rows(fetcher, TRANSFORM)
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


def _firstlings(fetchers: list[Fetcher]) -> tuple[int, int]:
    """Of two workers' first batches, those at the same place: how many, and how many with the same content.

    A worker whose batches are all alike says nothing: two such workers would agree on anything.
    """
    seen = [
        {row.b: row.a for row in fetcher.log.by_kind.get(wire.FIRSTLING, ()) if _for(fetcher, row)}
        for fetcher in fetchers
    ]
    telling = [batches for batches in seen if len(set(batches.values())) > 1]
    compared = equal = 0
    for one, other in combinations(telling[:16], 2):
        both = one.keys() & other.keys()
        compared += len(both)
        equal += sum(one[place] == other[place] for place in both)
    return compared, equal


PATHS_AT_MOST = 64  # names of files in a profile, of all loaders together


@dataclass
class _Touched:
    """The files of one loader: file system and size by path, where known."""

    mounts: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    decoders: set[str] = field(default_factory=set)
    direct: bool = False
    rotational: bool | None = None


def read_hot_files(
    logs: list[ProcessLog], samples: Iterable[Sample], loader_of: dict[int, str]
) -> list[HotFiles]:
    """The files that fetches touched: from the agent's open events and from descriptors seen outside."""
    touched: dict[str, _Touched] = {}
    for log in logs:
        if key := loader_of.get(log.pid):
            _told(touched.setdefault(key, _Touched()), log)
    for sample in samples:
        if sample.sensor == "file" and (key := loader_of.get(int(float(sample.values.get("pid", 0))))):
            _seen(touched.setdefault(key, _Touched()), sample)
    known = {key: one for key, one in touched.items() if one.mounts}
    kept = max(1, PATHS_AT_MOST // max(1, len(known)))
    return [_summed_up(key, one, kept) for key, one in known.items()]


def _told(touched: _Touched, log: ProcessLog) -> None:
    """What the agent said."""
    for fact in log.facts:
        if fact.get("fact") == "file":
            touched.mounts.setdefault(str(fact.get("path")), "")
            touched.direct = touched.direct or bool(fact.get("direct"))
        elif fact.get("fact") == "decoder":
            touched.decoders.add(str(fact.get("module")))


def _seen(touched: _Touched, sample: Sample) -> None:
    """What was seen from outside."""
    path = str(sample.values.get("path"))
    touched.mounts[path] = str(sample.values.get("fstype", ""))
    touched.sizes[path] = int(float(sample.values.get("bytes", 0)))
    spins = float(sample.values.get("rotational", -1))
    if spins >= 0:
        touched.rotational = bool(spins)


def _summed_up(key: str, touched: _Touched, kept: int) -> HotFiles:
    paths, sizes = touched.mounts, touched.sizes
    suffixes = Counter(PurePosixPath(path).suffix.lower() for path in paths)
    return HotFiles(
        loader=key,
        files=len(paths),
        bytes=sum(sizes.values()) if len(sizes) == len(paths) and all(sizes.values()) else 0,
        suffixes=dict(suffixes.most_common(8)),
        mounts=dict(Counter(fstype for fstype in paths.values() if fstype)),
        example=min(paths),
        rotational=touched.rotational,
        paths=sorted(paths)[:: -(-len(paths) // kept)],
        direct=touched.direct,
        decoders=sorted(touched.decoders),
    )


FETCHES_AT_MOST = 4096
FULL_SAMPLE = 1 << 16


@dataclass(frozen=True)
class Fetcher:
    """Who fetched for a loader: (log, worker number, the loader's number there or None for all)."""

    log: ProcessLog
    worker: int
    thing: int | None


def find_fetchers(logs: list[ProcessLog], numbering: Numbering) -> dict[str, list[Fetcher]]:
    """The processes that made batches for each loader; worker -1 is the training process itself."""
    fetchers: dict[str, list[Fetcher]] = {}
    owners: dict[int, tuple[str, int]] = {}
    for log in logs:
        for row in log.of(wire.WORKERS):
            owners[row.a] = (numbering.get((log.pid, row.thing), ""), row.b)
        inline = {row.thing for row in log.rows if row.kind == wire.FETCH and row.thing}
        for thing in inline:
            fetchers.setdefault(numbering.get((log.pid, thing), ""), []).append(Fetcher(log, -1, thing))
    for log in logs:
        if log.pid in owners and log.first("worker"):
            key, number = owners[log.pid]
            fetchers.setdefault(key, []).append(Fetcher(log, number, None))
    return {key: fetcher for key, fetcher in fetchers.items() if key}


def read_fetches(
    key: str, fetchers: list[Fetcher], origin: int, at_most: int = FETCHES_AT_MOST
) -> FetchTable:
    """A uniform sample of the loader's fetches in order of time."""
    triples = []
    opened: dict[tuple[int, int], Row] = {}
    seen = 0
    for fetcher in fetchers:
        mine = list(books_of(fetcher))
        triples += [(fetch, batch, count, fetcher.worker) for fetch, batch, count in mine]
        opened |= {
            (fetcher.worker, row.t): row for row in fetcher.log.of(wire.CONTAINER) if _for(fetcher, row)
        }
        seen += max((count.a for _, _, count in mine), default=0) if fetcher.thing is None else 0
        seen += len(mine) if fetcher.thing is not None else 0
    triples.sort(key=lambda triple: triple[0].t)
    every = -(-len(triples) // at_most) or 1
    table = FetchTable(loader=key, seen=seen)
    for fetch, batch, count, worker in triples[::every]:
        _append(table, fetch, batch, count, worker, origin)
        _append_containers(table, opened.get((worker, fetch.t)))
    return table


def books_of(fetcher: Fetcher, wanted: Container[int] | None = None) -> list[tuple[Row, Row, Row]]:
    """FETCH, BATCH and COUNT of each fetch, which share their start; of all fetches, or of those that began
    at ``wanted`` instants."""
    found: dict[int, dict[int, Row]] = {}
    for row in fetcher.log.rows:
        if wanted is not None and row.t not in wanted:
            continue
        if row.kind in (wire.FETCH, wire.BATCH, wire.COUNT) and fetcher.thing in (None, row.thing):
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


def read_payload(key: str, fetchers: list[Fetcher]) -> Payload | None:
    """Means over the batches whose content or serialisation was looked at."""
    cargo = [
        row for fetcher in fetchers for row in fetcher.log.by_kind.get(wire.CARGO, ()) if _for(fetcher, row)
    ]
    pickles = [row for fetcher in fetchers for row in fetcher.log.by_kind.get(wire.PICKLE, ())]
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


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def read_repeats(key: str, fetchers: list[Fetcher]) -> Repeats | None:
    """Compare the checksums of indices that were fetched more than once."""
    samples: dict[int, list[Row]] = {}
    for fetcher in fetchers:
        for row in fetcher.log.rows:
            if row.kind == wire.SAMPLE and _for(fetcher, row):
                samples.setdefault(row.a, []).append(row)
    if not samples:
        return None
    again = [rows for rows in samples.values() if len(rows) > 1]
    equal = sum(len({(row.b, row.c) for row in rows}) == 1 for rows in again)
    sizes = [row.c for rows in samples.values() for row in rows]
    return Repeats(key, indices=len(samples), compared=len(again), equal=equal, sample_bytes=_mean(sizes))
