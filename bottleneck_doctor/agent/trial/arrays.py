"""Lets NumPy arrays leave the workers as tensors, in shared memory, where they would go through a pipe.

The loop gets arrays as before: they lie in the tensors' memory, so that this costs nothing. Options:
``where``.
"""

from __future__ import annotations

import sys

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .loader_match import on_iterators


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


class Packing:
    """Stands for the loader's collate function in a worker."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Parcel:
        return Parcel(_mapped(self.collate(samples), _packed))


def _mapped(thing: Any, change: Callable[[Any], Any]) -> Any:
    """The same lists, tuples and dictionaries, of those very types, with each leaf changed."""
    kind = type(thing)
    if kind is dict:
        return {key: _mapped(part, change) for key, part in thing.items()}
    if kind is list:
        return [_mapped(part, change) for part in thing]
    if kind is tuple:
        return tuple([_mapped(part, change) for part in thing])
    return change(thing)


def _packed(leaf: Any) -> Any:
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(leaf) is not numpy.ndarray or not leaf.size:
        return leaf
    try:
        return Array(sys.modules["torch"].from_numpy(leaf))
    except (TypeError, ValueError):  # a type or a layout that tensors do not have: it goes as before
        return leaf


def _unpacked(leaf: Any) -> Any:
    return leaf.tensor.numpy() if type(leaf) is Array else leaf


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""

    def build(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def _next_data(self: Any) -> Any:
            batch = original(self)
            return _mapped(batch.batch, _unpacked) if type(batch) is Parcel else batch

        return _next_data

    def swap(iterator: Any, loader: Any) -> None:
        if not iterator._num_workers:
            done("the loader has no workers")
            return
        iterator._collate_fn = Packing(iterator._collate_fn)
        done()

    def patch(module: Any) -> None:
        wrap(module._MultiProcessingDataLoaderIter, "_next_data", build)
        on_iterators(module, options.get("where"), swap, done)

    return {"torch.utils.data.dataloader": patch}
