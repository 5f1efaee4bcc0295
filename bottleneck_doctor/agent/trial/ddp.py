"""Wraps models for several ranks with other arguments, or has their gradients travel in half the width.

Options: ``arguments`` {name: value} as for DistributedDataParallel; ``hook``, the name of one of torch's own
communication hooks.
"""

from __future__ import annotations

import importlib

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .hook_points import told

HOOKS = "torch.distributed.algorithms.ddp_comm_hooks.default_hooks"


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once the class is there."""

    def patch(module: Any) -> None:
        wrap(
            module.DistributedDataParallel,
            "__init__",
            lambda original: _construction(original, options, done),
        )

    return {"torch.nn.parallel.distributed": patch}


def _construction(original: Callable[..., Any], options: dict[str, Any], done: Done) -> Callable[..., Any]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{**kwargs, **options.get("arguments", {})})
        told(_packed, done, self, options.get("hook", ""), done)

    return __init__


def _packed(model: Any, hook: str, done: Done) -> None:
    if hook:
        model.register_comm_hook(None, getattr(importlib.import_module(HOOKS), hook))
    done()
