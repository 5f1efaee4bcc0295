"""Says in plain values what a loader is: its arguments, its data set, and the lines that built it.

Also whether the model that gets an iterator's first batch computes gradients: training, or evaluation.
"""

from __future__ import annotations

import sys
from itertools import islice
from time import monotonic_ns as now

from . import wire
from .compiler import compiling, starting
from .guard import attributes, quiet, undo, without_overrides
from .hints import Any, FrameType
from .state import IteratorCounts, _users_frame, state

KEPT = (
    "batch_size shuffle num_workers pin_memory drop_last prefetch_factor persistent_workers in_order "
    "collate_fn sampler multiprocessing_context"
).split()


class OlderLoader:
    """What an iterator knows of the loader that made it, which it does not hold."""

    def __init__(self, iterator: Any) -> None:
        batches, workers = iterator._index_sampler, getattr(iterator, "_workers", ())
        self.dataset, self._dataset_kind = iterator._dataset, iterator._dataset_kind
        self.batch_size = getattr(batches, "batch_size", None)
        self.sampler = getattr(batches, "sampler", batches)
        self.collate_fn, self.pin_memory = iterator._collate_fn, iterator._pin_memory
        self.num_workers = iterator._num_workers
        self.prefetch_factor = getattr(iterator, "_prefetch_factor", None)
        self.persistent_workers = getattr(iterator, "_persistent_workers", False)
        self.multiprocessing_context: Any = None
        if workers:
            import multiprocessing

            self.multiprocessing_context = multiprocessing.get_context(workers[0]._start_method)


def loader_facts(loader: Any, frame: FrameType | None, kwargs: dict[str, Any]) -> dict[str, Any]:
    """A dictionary of JSON values; nothing of the user's objects is kept alive or called except ``len``."""
    dataset = loader.dataset
    found = _users_frame(frame)
    return {
        "dataset": _name(type(dataset)),
        "dataset_kind": "iterable" if loader._dataset_kind else "map",
        # An iterable data set may compute it by reading everything.
        "length": None if loader._dataset_kind else quiet(len)(dataset),
        "batch_size": loader.batch_size,
        "num_workers": loader.num_workers,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": bool(loader.persistent_workers),
        "pin_memory": bool(loader.pin_memory),
        "in_order": bool(getattr(loader, "in_order", True)),
        "sampler": _name(type(loader.sampler)),
        "collate": _name(loader.collate_fn),
        "start_method": start_method(loader),
        "batched_getitems": hasattr(type(dataset), "__getitems__"),
        "tensor_dataset": _inner(dataset) == "TensorDataset",
        "arguments": {key: _short(value) for key, value in kwargs.items() if key in KEPT},
        "file": found.f_code.co_filename if found else "",
        "line": found.f_lineno if found else 0,
        "function": found.f_code.co_name if found else "",
        "columns": _columns(found) if found else None,
        "through": _libraries(frame, found),
        "dataset_at": _source(type(dataset)),
    }


def _columns(frame: FrameType) -> list[int] | None:
    """Where the call that a frame is in stands: [line, end line, column, end column], from Python 3.11 on."""
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return None
    found: Any = next(islice(positions(), frame.f_lasti // 2, None), (None,))
    return None if None in found else list(found)


def _libraries(frame: FrameType | None, users: FrameType | None) -> list[str]:
    """The packages whose code stands between the construction and the user's line, innermost first."""
    names: list[str] = []
    while frame is not None and frame is not users and len(names) < 8:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name and name not in names:
            names.append(name)
        frame = frame.f_back
    return names


def _inner(dataset: Any) -> str:
    """The class name below Subset and its like."""
    for _ in range(4):
        inner = attributes(dataset).get("dataset")
        if inner is None:
            break
        dataset = inner
    return type(dataset).__name__


def start_method(loader: Any) -> str | None:
    """How the loader's workers are started; None where it has none."""
    context = loader.multiprocessing_context
    if context is not None:
        method: str = context.get_start_method()
        return method
    if not loader.num_workers:
        return None
    import multiprocessing

    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _source(kind: type) -> list[Any] | None:
    """[file, line] of the class's ``__getitem__`` or ``__iter__``, when it is Python."""
    for method in ("__getitem__", "__iter__"):
        code = getattr(getattr(kind, method, None), "__code__", None)
        if code is not None:
            return [code.co_filename, code.co_firstlineno]
    return None


def _name(thing: Any) -> str:
    """That of a class or a function, else of the object's class."""
    named = issubclass(type(thing), type) or type(thing).__module__ == "builtins"
    return (named and getattr(thing, "__qualname__", None)) or type(thing).__qualname__


def _short(value: Any) -> str:
    """The value as the user would write it, when that is short and plain."""
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)[:80]
    return _name(value)[:80] if callable(value) else "..."


NOTES_AT_MOST = 64  # iterators of a process
CALLS_AT_MOST = 16  # of modules without weights (transforms, losses) before the one that is waited for


class _ForwardHook:
    """The hook on all modules that waits for a forward pass, if one is registered, and how many were."""

    handle: Any = None
    count = 0


@quiet
def await_forward(account: IteratorCounts) -> None:
    """The first batch of an iterator has arrived. Before the first backward pass nothing is registered: it is
    not known yet whether the model is compiled, and torch warns of hooks on all modules where it is."""
    torch: Any = sys.modules.get("torch")
    remove_forward_hook()
    if torch is None or not state.trained or _ForwardHook.count >= NOTES_AT_MOST:
        return
    _ForwardHook.count += 1
    if not torch.is_grad_enabled():
        _note_grad_mode(account, False)
    elif not compiling():
        modules: Any = sys.modules["torch.nn.modules.module"]
        _ForwardHook.handle = modules.register_module_forward_pre_hook(_forward_hook(torch, account))


def _forward_hook(torch: Any, account: IteratorCounts) -> Any:
    batch, calls = state.arrivals, [0]

    @quiet
    def before(module: Any, inputs: Any) -> None:
        calls[0] += 1
        late = state.arrivals != batch or calls[0] > CALLS_AT_MOST
        if not late and (state.thread() != account.thread or not _learns(torch, module)):
            return
        remove_forward_hook()
        if not late:
            _note_grad_mode(account, torch.is_grad_enabled())

    return before


@without_overrides
def _learns(torch: Any, module: Any) -> bool:
    weight = next(torch.nn.Module.parameters(module), None)
    return weight is not None and weight.requires_grad


@quiet
def remove_forward_hook() -> None:
    """Take the hook off: the forward pass has come, or a compiled module is called, at which torch warns."""
    handle, _ForwardHook.handle = _ForwardHook.handle, None
    if handle is not None:
        handle.remove()


undo.append(remove_forward_hook)
starting.append(remove_forward_hook)


def _note_grad_mode(account: IteratorCounts, grad: bool) -> None:
    state.row(
        wire.GRAD_MODE, now(), 0, account.number, int(grad), thing=account.loader, thread=account.thread
    )
