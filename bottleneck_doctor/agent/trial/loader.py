"""Builds or reads a loader otherwise, of the kind that a remedy means, and makes batches otherwise."""

from __future__ import annotations

import inspect
import sys
from itertools import count

from ..guard import quiet
from ..hints import TYPE_CHECKING, Any, Callable, Done, FrameType, Table
from ..state import _users_frame
from .hook_points import LOADER, reason, reported, together, wrap

if TYPE_CHECKING:
    Arguments = dict[str, Any]


# what only a loader with workers takes -> what it is without
NEED_WORKERS = {
    "prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None, "timeout": 0,
}  # fmt: skip
SEEN = "_bdoc_facts"  # of a loader under construction, before any treatment changed them
_marks = count()


def loader(options: dict[str, Any], done: Done) -> Table:
    """``arguments`` {name: value}: the DataLoader is built with these: workers, pinning, order."""
    wanted = options.get("arguments", {})

    def changed(loader: Any, given: Arguments) -> Arguments:
        given = {**given, **wanted}
        # Without workers, what only workers take is refused by torch.
        return given if given.get("num_workers") else {**given, **NEED_WORKERS}

    def patch(module: Any) -> None:
        known = inspect.signature(module.DataLoader.__init__).parameters
        unknown = [name for name in wanted if name not in known]
        if unknown:
            done("this torch's DataLoader takes no %s" % unknown[0])
            return
        on_construction(module, options.get("where"), changed, done, built=done)

    return {LOADER: patch}


def on_iterators(options: dict[str, Any], swap: Callable[[Any, Any], object], done: Done) -> Table:
    """Call ``swap(iterator, loader)`` for each iterator of the loader meant, before it starts its workers:
    what makes batches may be another data set than the script's, which still sees its own."""
    mark = "_bdoc_meant_%d" % next(_marks)

    def meant(loader: Any, given: Arguments) -> Arguments:
        loader.__dict__[mark] = True
        return given

    def __init__(original: Callable[..., Any], self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        original(self, loader, *args, **kwargs)
        if mark in loader.__dict__:
            reported(swap, done, self, loader)

    def patch(module: Any) -> None:
        on_construction(module, options.get("where"), meant, done, built=lambda: None)
        wrap(module._BaseDataLoaderIter, "__init__", __init__)

    return {LOADER: patch}


def on_construction(
    module: Any,
    where: dict[str, Any] | None,
    change: Callable[[Any, Arguments], Arguments],
    done: Done,
    built: Callable[[], object],
) -> None:
    """Hand the loader meant, and its arguments by name, to ``change(loader, arguments)`` and build it with
    what that returns; then call ``built``. Where this is refused the loader is built as the script says, and
    ``done`` hears why. ``module`` is torch.utils.data.dataloader."""
    names = list(inspect.signature(module.DataLoader.__init__).parameters)[1:]

    def __init__(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(names, args)), **kwargs}
        changed = None
        if len(args) <= len(names) and "dataset" in given and _is_meant(self, where, given):
            changed = reported(change, done, self, dict(given))
        if changed is not None:
            try:
                original(self, **changed)
            except (AssertionError, TypeError, ValueError) as problem:
                done(reason(problem))
            else:
                built()
                return
        original(self, *args, **kwargs)

    wrap(module.DataLoader, "__init__", __init__)


def _is_meant(loader: Any, where: dict[str, Any] | None, given: Arguments) -> bool:
    """Whether this construction is the one that the profile saw; every one is, where none is named."""
    if where is None:
        return True
    seen = loader.__dict__.setdefault(SEEN, {})
    if not seen:
        _note(seen, given, sys._getframe(2))
    return bool(seen) and all(seen[name] == wanted for name, wanted in where.items() if name in seen)


@quiet
def _note(seen: dict[str, Any], given: Arguments, frame: FrameType | None) -> None:
    """What agent/loader_facts.py will say of the loader once it is built."""
    dataset, found = given["dataset"], _users_frame(frame)
    if found is not None:
        seen.update(file=found.f_code.co_filename, line=found.f_lineno)
    batch_sampler, sampler = given.get("batch_sampler"), given.get("sampler")
    seen["dataset"] = type(dataset).__qualname__
    seen["batch_size"] = None if batch_sampler is not None else given.get("batch_size", 1)
    if isinstance(dataset, sys.modules["torch.utils.data.dataset"].IterableDataset):
        return  # its length may be computed by reading it
    shuffled = given.get("shuffle") and batch_sampler is None
    default = "RandomSampler" if shuffled else "SequentialSampler"
    seen["sampler"] = default if sampler is None else type(sampler).__qualname__
    seen["length"] = len(dataset)


PACKED = "_bdoc_packed"  # of an iterator whose workers pack arrays


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
        if PACKED not in self.__dict__:
            return batch
        return mapped(batch, lambda leaf: leaf.tensor.numpy() if type(leaf) is Array else leaf)

    def swap(iterator: Any, loader: Any) -> None:
        if not iterator._num_workers:
            done("the loader has no workers")
            return
        iterator._collate_fn, iterator.__dict__[PACKED] = Packing(iterator._collate_fn), True
        done()

    def patch(module: Any) -> None:
        wrap(module._MultiProcessingDataLoaderIter, "_next_data", _next_data)

    return together({LOADER: patch}, on_iterators(options, swap, done))


class Packing:
    """Stands for the loader's collate function in a worker."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Any:
        return mapped(self.collate(samples), _as_tensor)


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
    while type(inner) is kinds.Subset:
        choices.append(inner.indices)
        inner = inner.dataset
    if type(inner) is not kinds.TensorDataset or not all(one.dim() for one in inner.tensors):
        return None
    return Gathered(dataset, inner.tensors, choices)
