"""Which sources of batches a run had: loaders built again on the same line are one."""

from __future__ import annotations

from typing import Any

from ..model.code import Location
from ..model.loops import Loader
from .rows import LARGEST, ProcessLog
from .source_calls import Mask, Site, read_call

Numbering = dict[tuple[int, int], str]  # (pid, the loader's number in that process) -> key
CONSTRUCTION = ("arguments", "file", "line", "function", "columns", "through")  # of a call that built one
NUMBERED = ("length", "batch_size", "num_workers", "prefetch_factor", "line")


def read_loaders(
    logs: list[ProcessLog], cwd: str = "", mask: Mask | None = None
) -> tuple[list[Loader], Numbering]:
    """The loaders of all processes and the key of each numbered construction.

    Scripts often build the same loader once an epoch; a key is (process, place, arguments), so these
    are one loader with several epochs. Without a ``mask`` for secrets no source text is kept.
    """
    loaders: dict[tuple[object, ...], Loader] = {}
    numbering: Numbering = {}
    built = {f"{one.pid}:{fact.get('thing')}": fact for one in logs for fact in one.facts if _builds(fact)}
    for log in logs:
        for fact in log.facts:
            if fact.get("fact") != "loader":
                continue
            origin = built.get(str(fact.get("origin")))
            if origin is not None:
                fact = fact | {name: origin.get(name) for name in CONSTRUCTION}
            identity = _identity(log.pid, fact)
            if identity not in loaders:
                loaders[identity] = _loader(f"{log.pid}:{len(loaders) + 1}", log.pid, fact, cwd, mask)
            numbering[log.pid, int(fact.get("thing", 0))] = loaders[identity].key
    return list(loaders.values()), numbering


def _builds(fact: dict[str, Any]) -> bool:
    return fact.get("fact") == "loader" and bool(fact.get("file"))


def _identity(pid: int, fact: dict[str, Any]) -> tuple[object, ...]:
    fields = ("file", "line", "dataset", "length", "batch_size", "num_workers", "collate", "sampler")
    return (pid, *(str(fact.get(name)) for name in fields))


def _loader(key: str, pid: int, fact: dict[str, Any], cwd: str, mask: Mask | None) -> Loader:
    source = fact.get("dataset_at")
    return Loader(
        key=key,
        kind=str(fact.get("kind", "dataloader")),
        pid=pid,
        dataset=str(fact.get("dataset", "")),
        dataset_kind=str(fact.get("dataset_kind", "map")),
        dataset_length=_int(fact.get("length")),
        batch_size=_int(fact.get("batch_size")),
        num_workers=_int(fact.get("num_workers")) or 0,
        prefetch_factor=_int(fact.get("prefetch_factor")),
        persistent_workers=bool(fact.get("persistent_workers")),
        pin_memory=bool(fact.get("pin_memory")),
        in_order=bool(fact.get("in_order", True)),
        sampler=str(fact.get("sampler", "")),
        collate=str(fact.get("collate", "")),
        start_method=fact.get("start_method"),
        batched_getitems=bool(fact.get("batched_getitems")),
        tensor_dataset=bool(fact.get("tensor_dataset")),
        arguments={str(name): str(value) for name, value in dict(fact.get("arguments") or {}).items()},
        location=locate(fact),
        dataset_location=Location(str(source[0]), int(source[1])) if source else None,
        through=[str(name) for name in fact.get("through") or []],
        call=read_call(_site(fact), cwd, mask) if mask and fact.get("file") else None,
    )


def _site(fact: dict[str, Any]) -> Site:
    return Site(
        file=str(fact["file"]),
        line=int(fact.get("line") or 0),
        columns=tuple(int(place) for place in fact.get("columns") or ()),
        through=tuple(str(name) for name in fact.get("through") or ()),
        names=frozenset(map(str, fact.get("arguments") or ())),
    )


def locate(fact: dict[str, Any]) -> Location | None:
    """The user's line in a fact, if there is one."""
    if not fact.get("file"):
        return None
    return Location(str(fact["file"]), int(fact.get("line") or 0), str(fact.get("function") or ""))


def _int(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and 0 <= value < LARGEST else None
