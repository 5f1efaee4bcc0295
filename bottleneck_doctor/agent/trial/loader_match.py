"""Knows the DataLoader that a remedy means among all that a script builds, and builds it otherwise.

A place is not enough: Lightning, the Trainer of transformers and a factory function build the loaders of
training and of evaluation on one line of the user's. So what they are given is compared, too, and evaluation
stays as it is. Only trials load this.
"""

from __future__ import annotations

import inspect
import sys
from itertools import count

from ..guard import quiet
from ..hints import TYPE_CHECKING, Any, Callable, Done, FrameType
from ..state import _users_frame
from .apply import wrap

if TYPE_CHECKING:
    Arguments = dict[str, Any]
    Change = Callable[[Any, Arguments], Arguments]

SEEN = "_bdoc_facts"  # of a loader under construction, before any treatment changed them


def on_construction(
    module: Any, where: dict[str, Any] | None, change: Change, done: Done, built: Callable[[], object]
) -> None:
    """Hand the loader meant, and its arguments by name, to ``change(loader, arguments)`` and build it with
    what that returns; then call ``built``. Where this is refused the loader is built as the script says, and
    ``done`` hears why. ``module`` is torch.utils.data.dataloader."""
    wrap(module.DataLoader, "__init__", lambda original: _construction(original, where, change, done, built))


def on_iterators(
    module: Any, where: dict[str, Any] | None, swap: Callable[[Any, Any], object], done: Done
) -> None:
    """Call ``swap(iterator, loader)`` for each iterator of the loader meant, before it starts its workers:
    what makes batches may be another data set than the script's, which still sees its own."""
    mark = "_bdoc_meant_%d" % next(_marks)

    def change(loader: Any, given: Arguments) -> Arguments:
        loader.__dict__[mark] = True
        return given

    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
            original(self, loader, *args, **kwargs)
            if mark in loader.__dict__:
                try:
                    swap(self, loader)
                except Exception as problem:
                    done("%s: %s" % (type(problem).__name__, problem))

        return __init__

    on_construction(module, where, change, done, lambda: None)
    wrap(module._BaseDataLoaderIter, "__init__", build)


_marks = count()


def _construction(
    original: Callable[..., Any],
    where: dict[str, Any] | None,
    change: Change,
    done: Done,
    built: Callable[[], object],
) -> Callable[..., Any]:
    names = list(inspect.signature(original).parameters)[1:]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(names, args)), **kwargs}
        changed = None
        if len(args) <= len(names) and "dataset" in given and _is_meant(self, where, given):
            changed = _changed(self, given, change, done)
        if changed is not None:
            try:
                original(self, **changed)
            except (AssertionError, TypeError, ValueError) as problem:
                done("%s: %s" % (type(problem).__name__, problem))
            else:
                built()
                return
        original(self, *args, **kwargs)

    return __init__


def _changed(loader: Any, given: Arguments, change: Change, done: Done) -> Arguments | None:
    try:
        return change(loader, dict(given))
    except Exception as problem:
        done("%s: %s" % (type(problem).__name__, problem))
        return None


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
