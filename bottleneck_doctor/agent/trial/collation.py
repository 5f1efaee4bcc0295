"""Treatments of how samples become a batch: gathered at once, or with arrays that travel as tensors."""

from __future__ import annotations

import sys

from ..hints import Any, Callable, Done, Table
from .hook_points import LOADER, together, wrap
from .loader import on_iterators

DEPTH_AT_MOST = 8  # Subset in Subset


def mapped(thing: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples and dictionaries, of those very types, with each leaf changed."""
    kind = type(thing)
    if kind is dict:
        return {key: mapped(part, change) for key, part in thing.items()}
    if kind is list or kind is tuple:
        return kind([mapped(part, change) for part in thing])
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return kind(*(mapped(part, change) for part in thing))
    return change(thing)


def arrays(options: dict[str, Any], done: Done) -> Table:
    """NumPy arrays leave the workers as tensors, in shared memory, where they would go through a pipe. The
    loop gets arrays as before: they lie in the tensors' memory, so that this costs nothing."""

    def _next_data(original: Callable[[Any], Any], self: Any) -> Any:
        batch = original(self)
        return mapped(batch.batch, _as_array) if type(batch) is Parcel else batch

    def swap(iterator: Any, loader: Any) -> None:
        if not iterator._num_workers:
            done("the loader has no workers")
            return
        iterator._collate_fn = Packing(iterator._collate_fn)
        done()

    def patch(module: Any) -> None:
        wrap(module._MultiProcessingDataLoaderIter, "_next_data", _next_data)

    return together({LOADER: patch}, on_iterators(options, swap, done))


class Packing:
    """Stands for the loader's collate function in a worker."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Parcel:
        return Parcel(mapped(self.collate(samples), _as_tensor))


class Parcel:
    """A batch on its way, with tensors where it had arrays."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def pin_memory(self, *device: Any) -> Parcel:
        """What torch's pinning thread asks for: the tensors of the batch are pinned, arrays never were."""
        self.batch = sys.modules["torch.utils.data._utils.pin_memory"].pin_memory(self.batch, *device)
        return self


class Array:
    """A tensor that was an array, and will be one again."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


def _as_tensor(leaf: Any) -> Any:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(leaf) is not numpy.ndarray or not leaf.size:
        return leaf
    try:
        return Array(sys.modules["torch"].from_numpy(leaf))
    except (TypeError, ValueError):  # a type or a layout that tensors do not have: it goes as before
        return leaf


def _as_array(leaf: Any) -> Any:
    return leaf.tensor.numpy() if type(leaf) is Array else leaf


def batched(options: dict[str, Any], done: Done) -> Table:
    """All rows of a batch are taken from a TensorDataset in one gather. ``how``: "getitems" (the data set is
    asked for a batch's rows at once) or "sampler" (batches of indices are its samples).

    Only for torch's own TensorDataset, alone or below Subset, with torch's own collate function: then the
    batches are the same to the last bit, and of the same types.
    """

    def swap(iterator: Any, loader: Any) -> None:
        gathered = gathering(iterator._dataset)
        if gathered is None or loader.batch_sampler is None:
            done("not batches of a TensorDataset")
        elif iterator._collate_fn is not sys.modules[LOADER].default_collate:
            done("the loader has a collate function of its own")
        else:
            iterator._dataset, iterator._collate_fn = gathered, as_it_is
            iterator._auto_collation = options.get("how") != "sampler"  # else a list is the index
            done()

    return on_iterators(options, swap, done)


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
