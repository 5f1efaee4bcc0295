"""Gathers what is known of the files that fetches touched, per loader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ..model.profile import HotFiles
from ..model.sample import Sample
from .rows import Diary

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
    diaries: list[Diary], samples: Iterable[Sample], loader_of: dict[int, str]
) -> list[HotFiles]:
    """The files that fetches touched: from the agent's open events and from descriptors seen outside."""
    touched: dict[str, _Touched] = {}
    for diary in diaries:
        if key := loader_of.get(diary.pid):
            _told(touched.setdefault(key, _Touched()), diary)
    for sample in samples:
        if sample.sensor == "file" and (key := loader_of.get(int(float(sample.values.get("pid", 0))))):
            _seen(touched.setdefault(key, _Touched()), sample)
    known = {key: one for key, one in touched.items() if one.mounts}
    kept = max(1, PATHS_AT_MOST // max(1, len(known)))
    return [_summed_up(key, one, kept) for key, one in known.items()]


def _told(touched: _Touched, diary: Diary) -> None:
    """What the agent said."""
    for fact in diary.facts:
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
