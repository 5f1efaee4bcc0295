"""Which sources of batches a run had: loaders built again on the same line are one."""

from __future__ import annotations

from dataclasses import replace

from ..model.code import Location
from ..model.loops import Loader
from .facts import LoaderFact, ParallelFact, SiteFact
from .rows import ProcessLog
from .source_calls import Mask, Site, read_call

Numbering = dict[tuple[int, int], str]  # (pid, the loader's number in that process) -> key
IDENTITY = ("file", "line", "dataset", "length", "batch_size", "num_workers", "collate", "sampler")
CONSTRUCTION = ("arguments", "file", "line", "function", "columns", "through")  # of a call that built one


def read_loaders(
    logs: list[ProcessLog], cwd: str = "", mask: Mask | None = None
) -> tuple[list[Loader], Numbering]:
    """The loaders of all processes and the key of each numbered construction.

    Scripts often build the same loader once an epoch; a key is (process, place, arguments), so these
    are one loader with several epochs. Without a ``mask`` for secrets no source text is kept.
    """
    loaders: dict[tuple[object, ...], Loader] = {}
    numbering: Numbering = {}
    told = [(log.pid, fact) for log in logs for fact in log.told(LoaderFact)]
    built = {f"{pid}:{fact.thing}": fact for pid, fact in told if fact.file}
    for pid, fact in told:
        origin = built.get(fact.origin)
        if origin is not None:
            fact = replace(fact, **{name: getattr(origin, name) for name in CONSTRUCTION})
        identity = (pid, *(getattr(fact, name) for name in IDENTITY))
        if identity not in loaders:
            loaders[identity] = _loader(f"{pid}:{len(loaders) + 1}", pid, fact, cwd, mask)
        numbering[pid, fact.thing] = loaders[identity].key
    return list(loaders.values()), numbering


def _loader(key: str, pid: int, fact: LoaderFact, cwd: str, mask: Mask | None) -> Loader:
    return Loader(
        key=key,
        kind=fact.kind,
        pid=pid,
        dataset=fact.dataset,
        dataset_kind=fact.dataset_kind,
        dataset_length=fact.length,
        batch_size=fact.batch_size,
        num_workers=fact.num_workers,
        prefetch_factor=fact.prefetch_factor,
        persistent_workers=fact.persistent_workers,
        pin_memory=fact.pin_memory,
        in_order=fact.in_order,
        sampler=fact.sampler,
        collate=fact.collate,
        start_method=fact.start_method,
        batched_getitems=fact.batched_getitems,
        tensor_dataset=fact.tensor_dataset,
        arguments=fact.arguments,
        location=locate(fact),
        dataset_location=Location(*fact.dataset_at) if fact.dataset_at else None,
        through=fact.through,
        call=read_call(_site(fact), cwd, mask) if mask and fact.file else None,
    )


def _site(fact: LoaderFact) -> Site:
    return Site(fact.file, fact.line, tuple(fact.columns), tuple(fact.through), frozenset(fact.arguments))


def locate(fact: LoaderFact | SiteFact | ParallelFact) -> Location | None:
    """The user's line in a fact, if there is one."""
    return Location(fact.file, fact.line, fact.function) if fact.file else None
