"""The moments at which treatments act: a training begins, a model is first called, a backward pass ends.

No treatment itself. A training begins when its first loader begins an epoch or its first backward pass does,
whichever comes first: by then a script has set what it sets. Loader workers begin none. What fails in an act
is written down, never raised.
"""

from __future__ import annotations

import sys

from ..hints import Any, Callable, Done, Table
from .apply import wrap

LOADER, AUTOGRAD = "torch.utils.data.dataloader", "torch.autograd"


def at_start(act: Callable[[Any], None], done: Done) -> Table:
    """``act(torch)`` once in each process that trains, before it moves."""
    before = _once(act, done)
    return {
        LOADER: lambda module: wrap(module.DataLoader, "__iter__", before),
        AUTOGRAD: lambda module: wrap(module, "backward", before),
    }


def at_first_backward(act: Callable[[Any], None], done: Done) -> Table:
    """``act(torch)`` once, when all that a training lives with was built: data, model, workers."""
    before = _once(act, done)
    return {AUTOGRAD: lambda module: wrap(module, "backward", before)}


def after_backward(act: Callable[[int], None], done: Done) -> Table:
    """``act(count)`` after each backward pass; so many have ended."""
    count = [0]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            count[0] += 1
            told(act, done, count[0])
            return result

        return backward

    return {AUTOGRAD: lambda module: wrap(module, "backward", counted)}


def at_models(act: Callable[[Any], None], done: Done) -> Table:
    """``act(module)`` before the first call of each outermost module with parameters that is called while
    gradients are recorded, until the first backward pass ends. That call goes on as it was begun."""
    handles: list[Any] = []
    known: set[int] = set()

    def before(module: Any, inputs: Any) -> None:
        if id(module) in known or not sys.modules["torch"].is_grad_enabled():
            return
        known.update(id(one) for one in module.modules())
        if next(module.parameters(), None) is not None:
            told(act, done, module)

    def listen(torch: Any) -> None:
        handles.append(torch.nn.modules.module.register_module_forward_pre_hook(before))

    def no_more(count: int) -> None:
        while handles and known:
            handles.pop().remove()

    return together({"torch": listen}, after_backward(no_more, done))


def together(*tables: Table) -> Table:
    """One table that does what all of them do, in order."""
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: _each([table[name] for table in tables if name in table]) for name in names}


def told(act: Callable[..., Any], done: Done, *args: Any) -> Any:
    """What ``act`` returns; what it raises is written down, and None comes back."""
    try:
        return act(*args)
    except Exception as problem:
        done("%s: %s" % (type(problem).__name__, problem))
        return None


def in_worker() -> bool:
    """Whether this process makes batches for another one."""
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")
    return worker is not None and worker.get_worker_info() is not None


def _once(act: Callable[[Any], None], done: Done) -> Callable[[Any], Any]:
    """Builds wrappers of several functions; the first call of any of them acts."""
    acted = [False]

    def before(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not acted[0] and not in_worker():
                acted[0] = True
                told(act, done, sys.modules["torch"])
            return original(*args, **kwargs)

        return call

    return before


def _each(callbacks: list[Callable[[Any], Any]]) -> Callable[[Any], None]:
    def call(module: Any) -> None:
        for callback in callbacks:
            callback(module)

    return call
