"""Keeps the data set's files in memory: each is copied when it is first read, and then read from the copy.

For files that Python opens while a batch is made, by whichever function of its own; files that a library
opens in C++, or the script before the first batch, stay where they are, and the trial says so. Before the
first batch the workers read what the steps will use, so that these are steps after the first epoch. Options:
``where``; ``bytes`` that may be kept, of all processes together.
"""

from __future__ import annotations

import sys

from ..hints import Any, Done, Table
from ..loader_facts import start_method
from .cache import CachedDataset, before
from .file_copies import Copies
from .loader_match import on_iterators
from .sample_store import room

NOT_OPENED = "no file was opened by Python while batches were made"
COPIES = "_bdoc_copies"


class PreloadedDataset(CachedDataset):
    """Stands for the data set where batches are made: what it opens comes from memory."""

    def __init__(self, dataset: Any, copies: Copies, ahead: Any, done: Done) -> None:
        super().__init__(dataset, None, ahead, done)
        self.__dict__["take"] = copies.during(dataset.__getitem__)

    def make(self, index: Any) -> Any:
        """The sample, from files in memory."""
        return self.__dict__["take"](index)


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""

    def swap(iterator: Any, loader: Any) -> None:
        dataset = iterator._dataset
        if iterator._dataset_kind or getattr(dataset, "__getitems__", None) is not None:
            done("not a data set that is asked for one sample at a time")
            return
        if start_method(loader) not in (None, "fork"):
            done("the workers are not forked")
            return
        copies = loader.__dict__.get(COPIES)
        if copies is None:
            limit = min(room(), int(options.get("bytes") or sys.maxsize))
            copies = loader.__dict__[COPIES] = Copies(limit // max(1, iterator._num_workers), done)
            copies.serve()
            done(NOT_OPENED)
        iterator._dataset = PreloadedDataset(dataset, copies, before(iterator, options, done), done)

    where = options.get("where")
    return {"torch.utils.data.dataloader": lambda module: on_iterators(module, where, swap, done)}
