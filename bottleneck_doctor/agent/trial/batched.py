"""Takes all rows of a batch from a TensorDataset in one gather, as ``__getitems__`` or a batch sampler would.

Only for torch's own TensorDataset, alone or below Subset, with torch's own collate function: then the batches
are the same to the last bit, and of the same types. Options: ``where``, and ``how``: "getitems" (the data set
is asked for a batch's rows at once) or "sampler" (batches of indices are its samples).
"""

from __future__ import annotations

import sys

from ..hints import Any, Done, Table
from .loader_match import on_iterators

DEPTH_AT_MOST = 8  # Subset in Subset


class Gathered:
    """Stands for a TensorDataset, or Subsets of one, where batches are made."""

    def __init__(self, dataset: Any, tensors: tuple[Any, ...], choices: list[Any]) -> None:
        self.dataset, self.tensors, self.choices = dataset, tensors, choices

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: Any) -> Any:
        return self.__getitems__(index) if isinstance(index, list) else self.dataset[index]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """A list of one tensor for each of the data set's, as torch's collate function would return it."""
        for chosen in self.choices:
            indices = [chosen[index] for index in indices]
        rows = sys.modules["torch"].as_tensor(indices)
        return [tensor[rows] for tensor in self.tensors]


def as_it_is(batch: Any) -> Any:
    """The batch is a batch already."""
    return batch


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""

    def patch(module: Any) -> None:
        def swap(iterator: Any, loader: Any) -> None:
            gathered = gathering(iterator._dataset)
            if gathered is None or loader.batch_sampler is None:
                done("not batches of a TensorDataset")
            elif iterator._collate_fn is not module.default_collate:
                done("the loader has a collate function of its own")
            else:
                iterator._dataset, iterator._collate_fn = gathered, as_it_is
                iterator._auto_collation = options.get("how") != "sampler"  # else a list is the index
                done()

        on_iterators(module, options.get("where"), swap, done)

    return {"torch.utils.data.dataloader": patch}


def gathering(dataset: Any) -> Gathered | None:
    """A stand-in that gathers; None where the data set is any other, a subclass too."""
    kinds, inner, choices = sys.modules["torch.utils.data.dataset"], dataset, []
    for _ in range(DEPTH_AT_MOST):
        if type(inner) is not kinds.Subset:
            break
        choices.append(inner.indices)
        inner = inner.dataset
    if type(inner) is not kinds.TensorDataset or not all(one.dim() for one in inner.tensors):
        return None
    return Gathered(dataset, inner.tensors, choices)
