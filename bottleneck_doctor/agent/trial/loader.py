"""Knows the DataLoader that a remedy means among all that a script builds, and builds or reads it otherwise.

A place is not enough: Lightning, the Trainer of transformers and a factory function build the loaders of
training and of evaluation on one line of the user's. So what they are given is compared, too, and evaluation
stays as it is. Treatments name it in their option ``where``; none means every loader.
"""

from __future__ import annotations

import inspect
import sys
from itertools import count

from ..guard import quiet
from ..hints import TYPE_CHECKING, Any, Callable, Done, FrameType, Table
from ..state import _users_frame
from .hook_points import LOADER, reason, told, wrap

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
            told(swap, done, self, loader)

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
            changed = told(change, done, self, dict(given))
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
