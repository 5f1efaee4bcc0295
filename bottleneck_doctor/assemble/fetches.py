"""Builds, for each loader, the table of fetches, and sums up what hooks inside of fetches wrote down."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import PurePosixPath
from statistics import fmean, median

from ..agent import wire
from ..model.instruments import Sample
from ..model.loops import FetchTable, HotFiles, Making, Payload, Repeats
from .facts import FileFact, TransformFact, WorkerFact
from .loaders import Numbering
from .rows import ProcessLog, Row, S, append

EPOCHS_AT_MOST = 256
NAMES_AT_MOST = 32


def read_making(key: str, fetchers: list[Fetcher], logs: list[ProcessLog], numbering: Numbering) -> Making:
    """Draws of indices are from the process that built the loader, all else from those that fetched."""
    draws = [row for log in logs for row in log.of(wire.DRAWS) if numbering.get((log.pid, row.loader)) == key]
    usual, first = [row for row in draws if not row.first], [row for row in draws if row.first]
    # An epoch writes two rows, from building its iterator and from its first batch. What they took beyond as
    # many usual draws is shuffling, weighing, sorting.
    first = sorted(first, key=lambda row: row.t)[: 2 * EPOCHS_AT_MOST]
    each = median([row.duration / max(1, row.draws) for row in usual]) if usual else 0.0
    return Making(
        loader=key,
        batches=len(rows_of(fetchers, wire.FETCH)),
        transforms=_transforms(fetchers),
        draw_s=fmean([row.duration for row in usual]) * S if usual else None,
        draw_cpu_s=fmean([row.cpu_ns for row in usual]) * S if usual else None,
        first_draws_s=[max(0.0, row.duration - each * row.draws) * S for row in first],
        firstlings=_first_batches(fetchers),
    )


def _transforms(fetchers: list[Fetcher]) -> dict[str, float]:
    """Mean CPU per batch by class, over the fetches whose transforms were timed."""
    spent: dict[str, int] = defaultdict(int)
    timed = 0
    for fetcher in fetchers:
        names = {one.number: one.name for one in fetcher.log.facts_of(TransformFact)}
        rows = fetcher.rows(wire.TRANSFORM)
        timed += len({row.t for row in rows})
        for row in rows:
            spent[names.get(row.number, "?")] += row.cpu_ns
    found = sorted(spent.items(), key=lambda item: -item[1])[:NAMES_AT_MOST]
    return {name: total * S / timed for name, total in found}


def _first_batches(fetchers: list[Fetcher]) -> tuple[int, int]:
    """Of two workers' first batches, those at the same place: how many, and how many with the same content.

    Workers whose batches are all alike are left out: they would agree at every place.
    """
    seen = [{row.place: row.checksum for row in fetcher.rows(wire.FIRST_BATCH)} for fetcher in fetchers]
    telling = [batches for batches in seen if len(set(batches.values())) > 1]
    compared = equal = 0
    for one, other in combinations(telling[:16], 2):
        both = one.keys() & other.keys()
        compared += len(both)
        equal += sum(one[place] == other[place] for place in both)
    return compared, equal


@dataclass
class _Touched:
    """The files of one loader: file system and size by path, where known."""

    mounts: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    direct: bool = False
    rotational: bool | None = None


def read_hot_files(
    logs: list[ProcessLog], samples: Iterable[Sample], loader_of: dict[int, str]
) -> list[HotFiles]:
    """The files that fetches touched: from the agent's open events and from descriptors seen outside."""
    touched: dict[str, _Touched] = defaultdict(_Touched)
    for log in logs:
        for file in log.facts_of(FileFact) if log.pid in loader_of else ():
            one = touched[loader_of[log.pid]]
            one.mounts.setdefault(file.path, "")
            one.direct = one.direct or file.direct
    for sample in samples:
        if sample.sensor == "file" and (key := loader_of.get(int(float(sample.values.get("pid", 0))))):
            one, path = touched[key], str(sample.values.get("path"))
            one.mounts[path] = str(sample.values.get("fstype", ""))
            one.sizes[path] = int(float(sample.values.get("bytes", 0)))
            spins = float(sample.values.get("rotational", -1))
            one.rotational = bool(spins) if spins >= 0 else one.rotational
    found = []
    for key, one in touched.items():
        suffixes = Counter(PurePosixPath(path).suffix.lower() for path in one.mounts)
        whole = one.sizes.keys() == one.mounts.keys() and all(one.sizes.values())
        found.append(HotFiles(
            loader=key,
            files=len(one.mounts),
            bytes=sum(one.sizes.values()) if whole else 0,
            suffixes=dict(suffixes.most_common(8)),
            mounts=dict(Counter(fstype for fstype in one.mounts.values() if fstype)),
            rotational=one.rotational,
            direct=one.direct,
        ))  # fmt: skip
    return found


FETCHES_AT_MOST = 4096


@dataclass(frozen=True)
class Fetcher:
    """Who fetched for a loader: a process, its worker number, the loader's number there or None for all."""

    log: ProcessLog
    worker: int
    loader: int | None

    def rows(self, kind: int) -> list[Row]:
        """Those of its fetches."""
        return self.log.of(kind) if self.loader is None else self.log.of_loader(kind, self.loader)


def rows_of(fetchers: list[Fetcher], kind: int) -> list[Row]:
    """Those of all of them."""
    return [row for fetcher in fetchers for row in fetcher.rows(kind)]


def find_fetchers(logs: list[ProcessLog], numbering: Numbering) -> dict[str, list[Fetcher]]:
    """The processes that made batches for each loader; worker -1 is the training process itself."""
    fetchers: dict[str, list[Fetcher]] = {}
    owners: dict[int, tuple[str, int]] = {}
    for log in logs:
        for row in log.of(wire.WORKER):
            owners[row.pid] = (numbering.get((log.pid, row.loader), ""), row.worker)
        for thing in {row.loader for row in log.of(wire.FETCH) if row.loader}:
            fetchers.setdefault(numbering.get((log.pid, thing), ""), []).append(Fetcher(log, -1, thing))
    for log in logs:
        if log.pid in owners and log.facts_of(WorkerFact):
            key, number = owners[log.pid]
            fetchers.setdefault(key, []).append(Fetcher(log, number, None))
    return {key: fetcher for key, fetcher in fetchers.items() if key}


def read_fetches(
    key: str, fetchers: list[Fetcher], origin: int, at_most: int = FETCHES_AT_MOST
) -> FetchTable:
    """A uniform sample of the loader's fetches in order of time."""
    found = []
    seen = 0
    for fetcher in fetchers:
        mine = books_of(fetcher)
        opened = {row.t: row for row in fetcher.rows(wire.CONTAINER)}
        found += [(*rows, opened.get(rows[0].t), fetcher.worker) for rows in mine]
        own = max((count.fetches for _, _, count in mine), default=0)
        seen += own if fetcher.loader is None else len(mine)
    found.sort(key=lambda one: one[0].t)
    every = -(-len(found) // at_most) or 1
    table = FetchTable(loader=key, seen=seen)
    for fetch, batch, count, container, worker in found[::every]:
        append(
            table,
            t=(fetch.t - origin) * S,
            worker=worker,
            wall_s=fetch.duration * S,
            cpu_s=min(fetch.cpu_ns, fetch.duration) * S,
            other_cpu_s=max(0, fetch.process_cpu_ns - fetch.cpu_ns) * S,
            system_s=max(0, batch.system_ns) * S,
            runq_s=None if fetch.run_queue_ns < 0 else fetch.run_queue_ns * S,
            storage_bytes=_known(fetch.storage_bytes),
            read_bytes=_known(batch.read_bytes),
            reads=_known(count.read_calls),
            major_faults=max(0, fetch.major_faults),
            collate_s=batch.collate_ns * S,
            collate_cpu_s=max(0, batch.collate_cpu_ns) * S,
            decode_s=max(0, batch.decode_ns) * S,
            opens=_known(count.opens),
            minor_faults=_known(count.minor_faults),
            samples=max(0, batch.samples),
            containers=container.files if container else 0,
            container_s=container.duration * S if container else 0.0,
            container_cpu_s=container.cpu_ns * S if container else 0.0,
        )
    return table


def _known(value: int) -> int | None:
    return None if value < 0 else value


def books_of(fetcher: Fetcher, wanted: Container[int] | None = None) -> list[tuple[Row, Row, Row]]:
    """FETCH, BATCH and COUNT of each fetch, which share their start; of all fetches, or of those that began
    at ``wanted`` instants."""
    fetches, *others = (
        {row.t: row for row in fetcher.rows(kind)} for kind in (wire.FETCH, wire.BATCH, wire.COUNT)
    )
    batches, counts = others
    return [
        (row, batches[t], counts[t])
        for t, row in fetches.items()
        if t in batches and t in counts and (wanted is None or t in wanted)
    ]


def read_payload(key: str, fetchers: list[Fetcher]) -> Payload | None:
    """Means over the batches whose content or serialisation was sampled."""
    batches = rows_of(fetchers, wire.CONTENT)
    pickles = [row for fetcher in fetchers for row in fetcher.log.of(wire.PICKLE)]
    if not batches:
        return None
    return Payload(
        loader=key,
        batches=len(batches),
        tensors=_mean([row.tensors for row in batches]),
        tensor_bytes=_mean([row.tensor_bytes for row in batches]),
        other_bytes=_mean([row.other_bytes for row in batches]),
        pipe_bytes=_mean([row.bytes for row in pickles]),
        serialise_cpu_s=_mean([row.cpu_ns for row in pickles]) * S,
        element_bytes=_mean([row.element_bytes for row in batches]),
    )


def _mean(values: list[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def read_repeats(key: str, fetchers: list[Fetcher]) -> Repeats | None:
    """Compare the checksums of indices that were fetched more than once."""
    samples: dict[int, list[Row]] = {}
    every = rows_of(fetchers, wire.SAMPLE)
    for row in every:
        samples.setdefault(row.dataset_index, []).append(row)
    if not samples:
        return None
    again = [rows for rows in samples.values() if len(rows) > 1]
    equal = sum(len({(row.checksum, row.bytes) for row in rows}) == 1 for rows in again)
    return Repeats(key, compared=len(again), equal=equal, sample_bytes=_mean([row.bytes for row in every]))
