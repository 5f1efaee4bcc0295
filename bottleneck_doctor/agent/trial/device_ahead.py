"""Fetches and copies one batch ahead, on a stream of its own, while the device computes the last one.

No options. Only loops that record gradients, once it is known which CUDA device they compute on: it need not
be the current one. Batches are tensors, or lists, tuples and dicts of them. Not yet proven on hardware.
"""

from __future__ import annotations

import sys

from ..hints import Any, Callable, Done, Table
from ..state import state
from .apply import wrap
from .hook_points import LOADER


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Every iterator of a loader."""

    def patch(module: Any) -> None:
        wrap(module._BaseDataLoaderIter, "__next__", lambda original: _next(original, done))
        wrap(module._BaseDataLoaderIter, "_reset", _reset)

    return {LOADER: patch}


class _Batch:
    """One that was fetched: its copy on the device, or how fetching it ended."""

    def __init__(self, iterator: Any, fetch: Callable[..., Any], side: Any, device: str) -> None:
        self.value: Any = None
        self.ending: BaseException | None = None
        self.side, self.device = side, device
        try:
            batch = fetch(iterator)
        except BaseException as ending:
            self.ending = ending
            return
        with sys.modules["torch"].cuda.stream(side):
            self.value = each(batch, self._copy)

    def given(self) -> Any:
        """The batch, once the copy that was begun is in front of what is computed from now on."""
        if self.ending is not None:
            raise self.ending
        current = sys.modules["torch"].cuda.current_stream(self.device)
        current.wait_stream(self.side)
        each(self.value, lambda one: one.record_stream(current) if one.is_cuda else None)
        return self.value

    def _copy(self, tensor: Any) -> Any:
        return tensor.to(self.device, non_blocking=tensor.is_cpu and tensor.is_pinned())


def _next(original: Callable[..., Any], done: Done) -> Callable[..., Any]:
    def __next__(self: Any) -> Any:
        torch = sys.modules["torch"]
        used = state.accelerator
        if used is None or used.kind != "cuda" or not torch.is_grad_enabled():
            return original(self)
        kept, device = self.__dict__, "cuda:%d" % used.index
        if "_bdoc_side" not in kept:
            kept["_bdoc_side"] = torch.cuda.Stream(device)
        now = kept.pop("_bdoc_ahead", None) or _Batch(self, original, kept["_bdoc_side"], device)
        batch = now.given()
        done()
        kept["_bdoc_ahead"] = _Batch(self, original, kept["_bdoc_side"], device)
        return batch

    return __next__


def _reset(original: Callable[..., Any]) -> Callable[..., Any]:
    def _reset(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__.pop("_bdoc_ahead", None)  # an epoch that was left early
        return original(self, *args, **kwargs)

    return _reset


def each(batch: Any, act: Callable[[Any], Any]) -> Any:
    """The batch anew, with ``act`` on each tensor; what is no tensor stays."""
    if isinstance(batch, sys.modules["torch"].Tensor):
        return act(batch)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(each(one, act) for one in batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(each(one, act) for one in batch)
    if type(batch) is dict:
        return {name: each(one, act) for name, one in batch.items()}
    return batch
