"""Folds the sensors' samples into bounded series, and gives blocked samples to the loader they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from ..model.profile import Blocked, HotFiles, Series
from ..model.sample import Sample
from .rows import Diary
from .steps import S

POINTS_AT_MOST = 1024
BUCKETS_AT_MOST = 512
NOT_COUNTS = frozenset({"pid", "width_s"})
GRID_NS = 500_000_000  # sensors of one tick read a few milliseconds apart; they share a row
PATHS_AT_MOST = 64  # names of files in a profile, of all loaders together
SEPARATE = frozenset({"blocked", "channel", "file"})


def read_series(samples: Iterable[Sample], origin: int) -> Series:
    """One row per half-second; the sensors' names are unique already."""
    rows: dict[int, dict[str, float]] = {}
    for sample in samples:
        if sample.sensor not in SEPARATE:
            numbers = {
                name: float(value) for name, value in sample.values.items() if not isinstance(value, str)
            }
            rows.setdefault(sample.t_ns // GRID_NS * GRID_NS, {}).update(numbers)
    times = sorted(rows)
    every = -(-len(times) // POINTS_AT_MOST) or 1
    times = times[::every]
    names = sorted({name for t in times for name in rows[t]})
    return Series(
        [max(0.0, (t - origin) * S) for t in times],
        {name: [rows[t].get(name) for t in times] for name in names},
    )


def read_blocked(samples: Iterable[Sample], loader_of: dict[int, str], origin: int) -> list[Blocked]:
    """What fetching threads were seen doing, per loader and half-second."""
    bins: dict[str, dict[int, Counter[str]]] = {}
    channels: Counter[str] = Counter()
    for sample in samples:
        if sample.sensor == "channel":
            channels[str(sample.values.get("name", ""))] += int(float(sample.values.get("count", 1)))
        key = loader_of.get(int(float(sample.values.get("pid", 0)))) if sample.sensor == "blocked" else None
        if key is not None:
            counts = bins.setdefault(key, {}).setdefault(sample.t_ns, Counter())
            for name, value in sample.values.items():
                if name not in NOT_COUNTS and not isinstance(value, str):
                    counts[name] += int(value)
    return [_blocked(key, rows, channels, origin) for key, rows in bins.items()]


def _blocked(key: str, rows: dict[int, Counter[str]], channels: Counter[str], origin: int) -> Blocked:
    times = sorted(rows)
    every = -(-len(times) // BUCKETS_AT_MOST) or 1
    result = Blocked(key, channels=dict(channels.most_common(16)))
    for place in range(0, len(times), every):
        total: Counter[str] = Counter()
        for t in times[place : place + every]:
            total.update(rows[t])
        result.t.append((times[place] - origin) * S)
        result.counts.append({name: count for name, count in total.items() if count})
    return result


def read_hot_files(
    diaries: list[Diary], samples: Iterable[Sample], loader_of: dict[int, str]
) -> list[HotFiles]:
    """The files that fetches touched: from the agent's open events and from descriptors seen outside."""
    paths: dict[str, dict[str, str]] = {}
    direct: dict[str, bool] = {}
    decoders: dict[str, set[str]] = {}
    rotational: dict[str, bool] = {}
    for diary in diaries:
        key = loader_of.get(diary.pid)
        for fact in diary.facts:
            if fact.get("fact") == "file" and key:
                paths.setdefault(key, {}).setdefault(str(fact.get("path")), "")
                direct[key] = direct.get(key, False) or bool(fact.get("direct"))
            elif fact.get("fact") == "decoder" and key:
                decoders.setdefault(key, set()).add(str(fact.get("module")))
    for sample in samples:
        if sample.sensor == "file":
            key = loader_of.get(int(float(sample.values.get("pid", 0))))
            if key:
                paths.setdefault(key, {})[str(sample.values.get("path"))] = str(
                    sample.values.get("fstype", "")
                )
                if float(sample.values.get("rotational", -1)) >= 0:
                    rotational[key] = bool(float(sample.values["rotational"]))
    kept = PATHS_AT_MOST // max(1, len(paths))
    return [
        replace(
            _hot(key, found, rotational.get(key), max(1, kept)),
            direct=direct.get(key, False),
            decoders=sorted(decoders.get(key, ())),
        )
        for key, found in paths.items()
    ]


def _hot(key: str, found: dict[str, str], rotational: bool | None, kept: int) -> HotFiles:
    suffixes = Counter(PurePosixPath(path).suffix.lower() for path in found)
    mounts = Counter(fstype for fstype in found.values() if fstype)
    return HotFiles(
        loader=key,
        files=len(found),
        bytes=0,
        suffixes=dict(suffixes.most_common(8)),
        mounts=dict(mounts),
        example=min(found),
        rotational=rotational,
        paths=sorted(found)[:: -(-len(found) // kept)],
    )
