"""Keeps finished samples in memory: each is made once, whoever of the workers asks for it.

What the user's fix does once, at the start, is done at the start here, too: before the first batch the
workers make every sample that the run's steps will use, each a part of them. So the steps that follow are
those of an epoch in which everything is kept, however few there are. The data set must give the same sample
each time; it is for whoever orders this to know that. Options: ``where``;
``bytes`` that may be kept; ``warm`` (default true): make the samples before the first batch.
"""

from __future__ import annotations

import os
import sys

from ..hints import Any, Done, Iterable, Table
from .apply import reporter
from .loader_match import on_iterators
from .sample_store import Store, room
from .sampler_lookahead import keep_random, wanted

OWN = {"dataset", "store", "ahead", "pid", "done"}  # all other attributes are the data set's
STORE = "_bdoc_store"  # of a loader: its samples, for all of its iterators
UNUSED = "no sample was asked for a second time: the steps end before the second epoch"


class CachedDataset:
    """Stands for the data set where batches are made."""

    def __init__(self, dataset: Any, store: Store | None, ahead: Iterable[int], done: Done) -> None:
        self.dataset, self.store, self.ahead, self.done = dataset, store, ahead, done
        self.pid = 0  # of the process that has made its part

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:  # nor is it there while it is unpickled
            return object.__getattribute__(self, name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.dataset, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return _spawned, (self.dataset, self.store, self.ahead)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        if self.pid != os.getpid():
            self.pid = os.getpid()
            self.warm()
        if self.store is None or not _is_number(index):
            return self.make(index)
        kept = self.store.get(int(index))
        if kept is not None:
            self.done()
            return kept[0]
        sample = self.make(index)
        self.keep(int(index), sample)
        return sample

    def make(self, index: Any) -> Any:
        """The sample, as the data set makes it."""
        return self.dataset[index]

    def keep(self, index: int, sample: Any) -> None:
        """Add a sample; one that cannot be kept is said once, and made anew each time."""
        try:
            if self.store is not None and not self.store.put(index, sample):
                self.done("the samples take more memory than they may")
        except Exception as problem:
            self.done("a sample could not be kept: %s: %s" % (type(problem).__name__, problem))

    def warm(self) -> None:
        """Make this worker's part of the samples to come, leaving random numbers as they were."""
        worker = sys.modules["torch.utils.data"].get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        undo = keep_random()
        try:
            for place, index in enumerate(self.ahead):
                if place % step == first and (self.store is None or not self.store.has(index)):
                    self.keep(index, self.make(index))
        finally:
            undo()


def _spawned(dataset: Any, store: Store | None, ahead: Iterable[int]) -> CachedDataset:
    """In a spawned worker, whose file of rows is another."""
    return CachedDataset(dataset, store, ahead, reporter("cache"))


def _is_number(index: Any) -> bool:
    return hasattr(index, "__index__") and int(index) >= 0


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""

    def swap(iterator: Any, loader: Any) -> None:
        dataset = iterator._dataset  # that of another treatment, maybe
        if iterator._dataset_kind or getattr(dataset, "__getitems__", None) is not None:
            done("not a data set that is asked for one sample at a time")
            return
        store = loader.__dict__.get(STORE)
        if store is None:
            limit = min(room(), int(options.get("bytes") or sys.maxsize))
            store = loader.__dict__[STORE] = Store(len(dataset), limit)
            done(UNUSED)
        iterator._dataset = CachedDataset(dataset, store, before(iterator, options, done), done)

    where = options.get("where")
    return {"torch.utils.data.dataloader": lambda module: on_iterators(module, where, swap, done)}


def before(iterator: Any, options: dict[str, Any], done: Done) -> Iterable[int]:
    """What is to be made before the first batch; that batch may then be waited for longer than any."""
    if not options.get("warm", True):
        return ()
    ahead = wanted(iterator, len(iterator._dataset))
    if ahead is None:
        done("not known which samples the steps will use: the sampler is not torch's")
        return ()
    iterator._timeout = 0
    return ahead
