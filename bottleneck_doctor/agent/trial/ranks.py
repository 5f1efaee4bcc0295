"""Treatments of a model that several ranks train: how it is wrapped, how often it exchanges gradients."""

from __future__ import annotations

import importlib
import sys
import weakref

from ..hints import Any, Callable, Done, Table
from .hook_points import OPTIMIZER, reported, wrap

PARALLEL = "torch.nn.parallel.distributed"
HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"


def ddp(options: dict[str, Any], done: Done) -> Table:
    """``arguments`` {name: value}: models are wrapped with these; ``hook``: gradients travel as this one of
    torch's own communication hooks has them, in half the width."""

    def __init__(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, **options.get("arguments", {})})
        reported(registered, done, self)

    def registered(model: Any) -> None:
        if options.get("hook"):
            model.register_comm_hook(None, getattr(importlib.import_module(HOOKS), options["hook"]))
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
