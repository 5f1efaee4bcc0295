"""Exchanges gradients once for each step of the optimizer, in the last of the passes whose gradients add up.

Options: ``passes``, so many forward passes belong to one step. Where a step comes earlier, as at an epoch's
end, what was not exchanged yet is averaged right before it: the optimizer never sees gradients of one rank
alone. Code that looks at gradients between that backward pass and the step, to clip them, does.
"""

from __future__ import annotations

import sys
import weakref

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .hook_points import told


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Every model that is shared among ranks."""
    counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    passes = int(options["passes"])

    def patch(module: Any) -> None:
        wrap(
            module.DistributedDataParallel,
            "forward",
            lambda original: _forward(original, counts, passes, done),
        )

    def settle(*_: Any) -> None:
        for model, count in list(counts.items()):
            if count % passes:
                told(_average, done, model)
            counts[model] = 0

    return {
        "torch.nn.parallel.distributed": patch,
        "torch.optim.optimizer": lambda module: module.register_optimizer_step_pre_hook(settle),
    }


def _forward(original: Callable[..., Any], counts: Any, passes: int, done: Done) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
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

    return forward


def _average(model: Any) -> None:
    """What DistributedDataParallel would have done in the last pass."""
    distributed = sys.modules["torch.distributed"]
    for one in model.parameters():
        if one.grad is not None:
            distributed.all_reduce(one.grad, group=model.process_group)
            one.grad.div_(distributed.get_world_size(model.process_group))
