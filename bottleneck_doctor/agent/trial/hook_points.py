"""Where and when treatments act: in the place of a function, or as a training begins, calls a model, steps.

No treatment itself. A training begins when its first loader begins an epoch or its first backward pass does,
whichever comes first: by then a script has set what it sets. Loader workers begin none. What fails in an act
is written down, never raised.
"""

from __future__ import annotations

import functools
import sys

from ..guard import quiet
from ..hints import Any, Callable, Done, Table
from ..state import state

LOADER, AUTOGRAD, OPTIMIZER = "torch.utils.data.dataloader", "torch.autograd", "torch.optim.optimizer"


def reporter(name: str) -> Done:
    """What a treatment calls to say what became of it; each thing is written down once a process."""
    written: set[str] = set()

    @quiet
    def done(why: str = "") -> None:
        if why not in written and len(written) < 8:
            written.add(why)
            state.writer.fact(fact="treated", name=name, why=why[:200])

    return done


def reason(problem: Exception) -> str:
    """An exception, as ``done`` hears of it."""
    return "%s: %s" % (type(problem).__name__, problem)


def reported(act: Callable[..., Any], done: Done, *args: Any) -> Any:
    """What ``act`` returns; what it raises is written down, and None comes back."""
    try:
        return act(*args)
    except Exception as problem:
        done(reason(problem))
        return None


def guarded(table: Table, done: Done) -> Table:
    """The same callbacks; one that fails is written down."""
    return {name: functools.partial(reported, callback, done) for name, callback in table.items()}


def together(*tables: Table) -> Table:
    """One table that does what all of them do, in order."""

    def each(callbacks: list[Callable[[Any], Any]], module: Any) -> None:
        for callback in callbacks:
            callback(module)

    names = dict.fromkeys(name for table in tables for name in table)
    return {
        name: functools.partial(each, [table[name] for table in tables if name in table]) for name in names
    }


def opened(batch: Any) -> Any:
    """What a batch of a library's own class keeps its parts in: transformers' BatchEncoding, dataclasses."""
    if isinstance(batch, (dict, list, tuple)) or hasattr(batch, "untyped_storage"):
        return batch
    inner = getattr(batch, "data", None)
    if isinstance(inner, dict):
        return inner
    own = getattr(batch, "__dict__", None)
    return own if isinstance(own, dict) else batch


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Have ``around(original, *args, **kwargs)`` called instead of ``owner.name``. Unlike ``guard.replace``
    it leaves no mark, so that the hook which measures the same function still comes on top."""
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    setattr(owner, name, functools.update_wrapper(call, original))


def at_start(act: Callable[[Any], None], done: Done) -> Table:
    """``act(torch)`` once in each process that trains, before it moves."""
    before = _once(act, done)
    return {
        LOADER: lambda module: wrap(module.DataLoader, "__iter__", before),
        AUTOGRAD: lambda module: wrap(module, "backward", before),
    }


def at_first_backward(act: Callable[[Any], None], done: Done) -> Table:
    """``act(torch)`` once, when all that a training lives with was built: data, model, workers."""
    return {AUTOGRAD: lambda module: wrap(module, "backward", _once(act, done))}


def _once(act: Callable[[Any], None], done: Done) -> Callable[..., Any]:
    """Goes around several functions; the first call of any of them acts."""
    acted = [False]

    def before(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        worker: Any = None if acted[0] else sys.modules.get("torch.utils.data._utils.worker")
        if not acted[0] and (worker is None or worker.get_worker_info() is None):
            acted[0] = True
            reported(act, done, sys.modules["torch"])
        return original(*args, **kwargs)

    return before


def after_backward(act: Callable[[int], None], done: Done) -> Table:
    """``act(count)`` after each backward pass; so many have ended."""
    count = [0]

    def backward(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        count[0] += 1
        reported(act, done, count[0])
        return result

    return {AUTOGRAD: lambda module: wrap(module, "backward", backward)}


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
            reported(act, done, module)

    def listen(torch: Any) -> None:
        handles.append(torch.nn.modules.module.register_module_forward_pre_hook(before))

    def no_more(count: int) -> None:
        while handles and known:
            handles.pop().remove()

    return together({"torch": listen}, after_backward(no_more, done))


def at_saving(around: Callable[[Callable[[Any], Any], Any, Any], Any]) -> Table:
    """``around(save, thing, target)`` instead of torch.save and safetensors' save_file; ``save(thing)`` does
    what the script asked for."""

    def call(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        import inspect  # torch has loaded it by now

        try:
            given = inspect.signature(original).bind(*args, **kwargs)
            thing, target, *_ = given.arguments.values()
        except (TypeError, ValueError):  # it will be refused, or is another function than torch's
            return original(*args, **kwargs)
        return around(lambda one: original(one, *given.args[1:], **given.kwargs), thing, target)

    def torch_save(module: Any) -> None:
        torch: Any = sys.modules.get("torch")
        before = module.save
        wrap(module, "save", call)
        if getattr(torch, "save", None) is before:  # torch was imported before: the same by another name
            torch.save = module.save

    return {
        "torch.serialization": torch_save,
        "safetensors.torch": lambda module: wrap(module, "save_file", call),
    }
