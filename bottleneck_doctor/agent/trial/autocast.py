"""Computes in 16 bits where torch holds that safe: forward passes and losses, no backward pass, no optimizer.

Options: ``device``, as for torch.autocast; ``dtype``, "bfloat16" or "float16" (the latter without a scaler of
gradients). It holds from the end of the first backward pass on, in the threads that call one, outside of
whatever makes batches; evaluation has it, too. Where the script switches autocast itself, that goes first.
"""

from __future__ import annotations

import sys
import threading

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .hook_points import AUTOGRAD, LOADER, told


def watchers(options: dict[str, Any], done: Done) -> Table:
    """The backward pass switches it on, and every place that must be without it off for as long."""
    mode = _Mode(str(options["device"]), str(options["dtype"]), done)

    def loader(module: Any) -> None:
        wrap(module.DataLoader, "__iter__", mode.without)
        wrap(module._BaseDataLoaderIter, "__next__", mode.without)

    def optimizer(module: Any) -> None:
        module.register_optimizer_step_pre_hook(lambda *_: mode.leave())
        module.register_optimizer_step_post_hook(lambda *_: mode.enter())

    return {
        LOADER: loader,
        AUTOGRAD: lambda module: wrap(module, "backward", mode.backward),
        "torch.optim.optimizer": optimizer,
    }


class _Mode:
    """Autocast of the threads that train; torch keeps the switch for each thread."""

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

    def without(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The original, without it."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.leave()
            try:
                return original(*args, **kwargs)
            finally:
                self.enter()

        return call

    def backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The same; the first one of a thread is what begins it."""
        plain = self.without(original)

        def backward(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            if not getattr(self.trains, "begun", False):
                self.trains.begun = True
                told(self._begin, self.done)
            return result

        return backward

    def _begin(self) -> None:
        torch = sys.modules["torch"]
        if torch.is_autocast_enabled(self.device):
            self.done("the script computes under autocast itself")
            return
        torch.set_autocast_dtype(self.device, getattr(torch, self.dtype))
        torch.set_autocast_enabled(self.device, True)
        self.done()
