"""Keeps finished samples in memory: each is made once, before the first batch, and all processes read it.

What the user's fix does once at the start is done at the start here as well: the samples that the run's steps
will use are made by as many workers as the loader has. The steps that follow are then those of an epoch in
which everything is kept, however few there are.
"""

from __future__ import annotations

import pickle
import random
import sys
from itertools import islice

from .. import wire
from ..batch_contents import sizes
from ..hints import Any, Callable, Done, Iterable, Table
from ..state import state
from .loader import as_it_is, on_iterators
from .reused_batches import copied

KEPT = "_bdoc_kept"  # of a loader, for all of its iterators: {index: sample}
MEMORY_SHARE = 0.5  # of the memory that is available: the training needs the rest
NO_ROOM = "not everything found room in memory"


class CachedDataset:
    """Stands for the data set where batches are made. Forked workers share the memory of what is ``kept``,
    spawned ones get a copy each. Copies are handed out, so that a script may change them in place."""

    def __init__(self, dataset: Any, kept: dict[int, Any]) -> None:
        self.__dict__.update(dataset=dataset, kept=kept)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:  # nor is it there while it is unpickled
            return object.__getattribute__(self, name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.dataset, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # As bytes: torch would open a file for each tensor that it hands to another process.
        return _unpacked, (self.dataset, pickle.dumps(self.kept))

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int) and index in self.kept:
            return copied(self.kept[index])
        return self.dataset[index]


def _unpacked(dataset: Any, kept: bytes) -> CachedDataset:
    return CachedDataset(dataset, pickle.loads(kept))  # written by the agent, in this run


def cache(options: dict[str, Any], done: Done) -> Table:
    """Finished samples are made once, whichever worker is asked for them. ``where``; ``bytes`` that may be
    kept.

    The data set must give the same sample each time; the one who orders this has to know that.
    """
    making: list[Any] = []  # the data set of the loader that makes samples ahead

    def swap(iterator: Any, loader: Any) -> None:
        dataset = iterator._dataset  # that of another treatment, maybe
        if making:
            return
        if iterator._dataset_kind or getattr(dataset, "__getitems__", None) is not None:
            done("not a data set that is asked for one sample at a time")
            return
        indices = wanted(iterator, len(dataset))
        if indices is None:
            done("not known which samples the steps will use: the sampler is not torch's")
            return
        kept: dict[int, Any] = loader.__dict__.setdefault(KEPT, {})
        missing = [index for index in dict.fromkeys(indices) if index not in kept]
        making.append(dataset)
        try:
            if missing and not _make(kept, missing, dataset, loader, options.get("bytes") or sys.maxsize):
                done(NO_ROOM)
        finally:
            making.clear()
        iterator._dataset = CachedDataset(dataset, kept)
        done()

    return on_iterators(options, swap, done)


def _make(kept: dict[int, Any], missing: list[int], dataset: Any, loader: Any, most_bytes: int) -> bool:
    """Make samples with a loader of our own, leaving random numbers as they were; whether all found room."""
    torch: Any = sys.modules["torch"]
    with open("/proc/meminfo", encoding="ascii") as info:
        known = dict(line.split(":") for line in info)
    room = min(int(int(known["MemAvailable"].split()[0]) * 1024 * MEMORY_SHARE), most_bytes)
    undo = keep_random()
    try:
        ahead = torch.utils.data.DataLoader(
            CachedDataset(dataset, {}), batch_size=None, sampler=missing, num_workers=loader.num_workers,
            collate_fn=as_it_is, worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
        )  # fmt: skip
        made = ahead._get_iterator()
        for index in missing:
            sample = copied(made._next_data())  # not as a step: the hooks that count them lie above
            room -= _size(sample)
            if room < 0:
                return False
            kept[index] = sample
        return True
    finally:
        undo()


def _size(sample: Any) -> int:
    """Bytes in tensors, arrays and texts; of what holds none, those of its pickle."""
    _, tensor_bytes, other_bytes, _ = sizes(sample)
    return tensor_bytes + other_bytes or len(pickle.dumps(sample))


# draw from a generator and change nothing else: one may draw from them and put the generator back
PURE = "SequentialSampler RandomSampler SubsetRandomSampler WeightedRandomSampler DistributedSampler".split()
UNLIMITED = 1 << 32  # steps: no early end was asked for
SPARE = 8  # batches that workers begin and no step uses


def wanted(iterator: Any, length: int) -> Iterable[int] | None:
    """Indices of the data set that this run will use, or all of them where it will see them all; None where
    that cannot be known. ``iterator`` is one of torch's that has not begun."""
    steps = _steps()
    sampler = iterator._index_sampler
    grouped = type(sampler).__name__ == "BatchSampler"
    samples = steps * (sampler.batch_size if grouped else 1)
    if samples >= length:
        return range(length)
    inner = sampler.sampler if grouped else sampler
    if type(inner).__name__ not in PURE or not type(inner).__module__.startswith("torch."):
        return None
    undo = keep_random(getattr(inner, "generator", None))
    try:
        ahead = islice(iter(sampler), steps + SPARE)
        return [index for batch in ahead for index in batch] if grouped else list(ahead)
    finally:
        undo()


def _steps() -> int:
    """Steps that this run is allowed."""
    if state.control is None:
        return UNLIMITED
    asked: int = wire.WORD.unpack_from(state.control.map, wire.STOP_AT)[0]
    return min(asked, UNLIMITED) or UNLIMITED


def keep_random(*generators: Any) -> Callable[[], None]:
    """Note the state of every source of random numbers; what is returned puts them back."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    noted: list[tuple[Callable[[Any], object], Any]] = [(random.setstate, random.getstate())]
    if torch is not None:
        noted.append((torch.set_rng_state, torch.get_rng_state()))
    if numpy is not None:
        noted.append((numpy.random.set_state, numpy.random.get_state()))
    noted += [(one.set_state, one.get_state()) for one in generators if one is not None]

    def put_back() -> None:
        for put, value in noted:
            put(value)

    return put_back
