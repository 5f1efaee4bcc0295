"""Keeps what hooks ask of tensors from the script's modes and subclasses, which torch would call for it."""

from __future__ import annotations

import sys

from .guard import quiet
from .hints import Any, Callable


def without_overrides(hook: Callable[..., Any]) -> Callable[..., Any]:
    """As ``quiet``, for a hook that asks tensors: torch calls no ``__torch_function__`` of the script."""

    def aside(*args: Any, **kwargs: Any) -> Any:
        with sys.modules["torch"]._C.DisableTorchFunction():
            return hook(*args, **kwargs)

    return quiet(aside)


def dispatching() -> bool:
    """Whether a dispatch mode of the script is on: it would be called for each of the agent's operators."""
    return bool(sys.modules["torch"]._C._len_torch_dispatch_stack())
