"""Treatments of how a model and its optimizer compute: compiled, in 16 bits, in another layout, at once.

And of a model that several ranks train: how it is wrapped, and how often it exchanges gradients.
"""

from __future__ import annotations

import importlib
import sys
import threading
import weakref

from ..hints import Any, Callable, Done, Table
from .hook_points import AUTOGRAD, LOADER, OPTIMIZER, at_models, reason, reported, wrap

CONFIG = "torch._dynamo.config"
COMPILERS = ("torch._dynamo", "torch._inductor", "torch._functorch")  # whose exceptions are not the model's
# What ``checkpoint`` takes for itself; everything else is the block's.
CHECKPOINTS = "use_reentrant context_fn determinism_check debug early_stop preserve_rng_state".split()


def compiled(options: dict[str, Any], done: Done) -> Table:
    """No options: each outermost model is compiled in place, as ``model.compile()`` does.

    The first call is the model's own, the second compiles, and so does the first of another batch size, which
    a ragged last batch has, and of an evaluation. All of that belongs into warm-up. Where the compiler fails,
    the model goes on as it was, and that is reported.
    """

    def act(module: Any) -> None:
        # Without it a plain ``Sequential`` is not compiled at all: torch's own frames are passed over.
        with importlib.import_module(CONFIG).patch(wrap_top_frame=True):
            module.compile()
        module._compiled_call_impl = _first(module, module._compiled_call_impl, done)

    return at_models(act, done)


def _first(module: Any, compiled: Callable[..., Any], done: Done) -> Callable[..., Any]:
    """Calls the compiled model until that has worked, and then is no longer in the way."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = compiled(*args, **kwargs)
        except Exception as problem:
            if not type(problem).__module__.startswith(COMPILERS):
                raise
            module._compiled_call_impl = None
            done(reason(problem))
            return module(*args, **kwargs)
        module._compiled_call_impl = compiled
        done()
        return result

    return call


def dynamic(options: dict[str, Any], done: Done) -> Table:
    """No options: ``torch.compile``, and so ``Module.compile``, compiles once for all shapes."""

    def compile_(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        done()
        return original(*args, **{**kwargs, "dynamic": True})

    return {"torch": lambda torch: wrap(torch, "compile", compile_)}


def recompute(options: dict[str, Any], done: Done) -> Table:
    """No options: activations are kept instead of computed twice; blocks are called as they are."""

    def checkpoint(original: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        done()
        return function(*args, **{name: value for name, value in kwargs.items() if name not in CHECKPOINTS})

    return {"torch.utils.checkpoint": lambda module: wrap(module, "checkpoint", checkpoint)}


def layout(options: dict[str, Any], done: Done) -> Table:
    """No options: the channels of a pixel lie side by side in memory, in images and in weights.

    Weights stay the parameters that they are. A model's first call is still in the old layout.
    """

    def act(module: Any) -> None:
        last = sys.modules["torch"].channels_last
        module.to(memory_format=last)

        def laid(value: Any) -> Any:
            if getattr(value, "ndim", 0) != 4 or not hasattr(value, "contiguous"):
                return value
            done()
            return value.contiguous(memory_format=last)

        def before(module: Any, args: Any, kwargs: Any) -> Any:
            return tuple(map(laid, args)), {name: laid(value) for name, value in kwargs.items()}

        module.register_forward_pre_hook(before, with_kwargs=True)

    return at_models(act, done)


def optimizer(options: dict[str, Any], done: Done) -> Table:
    """``way``, "fused" or "foreach": torch's own optimizers update all tensors at once, as if their
    constructor had been asked to.

    Optimizers whose class takes no such argument, and those that were asked how to step, stay as they are.
    What a class refuses of it, its first step says: the script ends there.
    """
    way = str(options["way"])

    def __init__(original: Callable[..., Any], self: Any, params: Any, defaults: dict[str, Any]) -> None:
        original(self, params, defaults)
        reported(_set_way, done, self, way, done)

    return {OPTIMIZER: lambda module: wrap(module.Optimizer, "__init__", __init__)}


def _set_way(optimizer: Any, way: str, done: Done) -> None:
    """The groups are what ``step`` reads; it has made no state yet."""
    if way not in optimizer.defaults:
        done("%s takes no argument %s" % (type(optimizer).__name__, way))
        return
    for group in (optimizer.defaults, *optimizer.param_groups):
        if group.get("fused") or group.get("foreach"):
            return
        group[way] = True
    if way == "fused":
        optimizer._step_supports_amp_scaling = True  # what the constructor does for it
    done()


def autocast(options: dict[str, Any], done: Done) -> Table:
    """Forward passes and losses compute in 16 bits where torch holds that safe. ``device``, as for
    torch.autocast; ``dtype``, "bfloat16" or "float16" (the latter without a scaler of gradients).

    It holds from the end of the first backward pass on, in the threads that call one: not in backward passes,
    nor in the optimizer, nor in whatever makes batches; evaluation has it, too. Where the script switches
    autocast itself, that goes first.
    """
    mode = _Autocast(str(options["device"]), str(options["dtype"]), done)

    def loader(module: Any) -> None:
        wrap(module.DataLoader, "__iter__", mode.without)
        wrap(module._BaseDataLoaderIter, "__next__", mode.without)

    def optimizer(module: Any) -> None:
        module.register_optimizer_step_pre_hook(lambda *_: mode.leave())
        module.register_optimizer_step_post_hook(lambda *_: mode.enter())

    return {
        LOADER: loader,
        AUTOGRAD: lambda module: wrap(module, "backward", mode.backward),
        OPTIMIZER: optimizer,
    }


class _Autocast:
    """The switch of the threads that train; torch keeps it for each thread."""

    def __init__(self, device: str, dtype: str, done: Done) -> None:
        self.device, self.dtype, self.done = device, dtype, done
        self.trains = threading.local()

    def enter(self) -> None:
        """On again, where it was on when this thread left it."""
        if getattr(self.trains, "left", False):
            self.trains.left = False
            sys.modules["torch"].set_autocast_enabled(self.device, True)

    def leave(self) -> None:
        """Off, and nothing kept of weights that are about to change."""
        torch = sys.modules["torch"]
        if getattr(self.trains, "begun", False) and torch.is_autocast_enabled(self.device):
            self.trains.left = True
            torch.set_autocast_enabled(self.device, False)
            torch.clear_autocast_cache()

    def without(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The original, without it."""
        self.leave()
        try:
            return original(*args, **kwargs)
        finally:
            self.enter()

    def backward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The same; the first one of a thread is what begins it."""
        result = self.without(original, *args, **kwargs)
        if not getattr(self.trains, "begun", False):
            self.trains.begun = True
            reported(self._begin, self.done)
        return result

    def _begin(self) -> None:
        torch = sys.modules["torch"]
        if torch.is_autocast_enabled(self.device):
            self.done("the script computes under autocast itself")
            return
        torch.set_autocast_dtype(self.device, getattr(torch, self.dtype))
        torch.set_autocast_enabled(self.device, True)
        self.done()


PARALLEL = "torch.nn.parallel.distributed"
COMM_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"


def ddp(options: dict[str, Any], done: Done) -> Table:
    """``arguments`` {name: value}: models are wrapped with these; ``hook``: gradients travel as this one of
    torch's own communication hooks has them, in half the width."""

    def __init__(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, **options.get("arguments", {})})
        reported(registered, done, self)

    def registered(model: Any) -> None:
        if options.get("hook"):
            model.register_comm_hook(None, getattr(importlib.import_module(COMM_HOOKS), options["hook"]))
        done()

    return {PARALLEL: lambda module: wrap(module.DistributedDataParallel, "__init__", __init__)}


def no_sync(options: dict[str, Any], done: Done) -> Table:
    """Gradients are exchanged once for each step of the optimizer, in the last of the passes whose gradients
    add up. ``passes``: so many forward passes belong to one step.

    Where a step comes earlier, as at an epoch's end, what was not exchanged yet is averaged right before it:
    the optimizer never sees gradients of one rank alone. Code that looks at gradients between that backward
    pass and the step, to clip them, does.
    """
    counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    passes = int(options["passes"])

    def forward(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (sys.modules["torch"].is_grad_enabled() and self.require_backward_grad_sync):
            return original(self, *args, **kwargs)
        counts[self] = counts.get(self, 0) + 1
        if counts[self] % passes == 0:
            return original(self, *args, **kwargs)
        done()
        self.require_backward_grad_sync = False  # what ``no_sync()`` does; the pass backward follows suit
        try:
            return original(self, *args, **kwargs)
        finally:
            self.require_backward_grad_sync = True

    def settle(*_: Any) -> None:
        for model, count in list(counts.items()):
            if count % passes:
                reported(_average, done, model)
            counts[model] = 0

    return {
        PARALLEL: lambda module: wrap(module.DistributedDataParallel, "forward", forward),
        OPTIMIZER: lambda module: module.register_optimizer_step_pre_hook(settle),
    }


def _average(model: Any) -> None:
    """What DistributedDataParallel would have done in the last pass."""
    distributed = sys.modules["torch.distributed"]
    for one in model.parameters():
        if one.grad is not None:
            distributed.all_reduce(one.grad, group=model.process_group)
            one.grad.div_(distributed.get_world_size(model.process_group))
