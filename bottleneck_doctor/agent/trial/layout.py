"""Lays the channels of a pixel side by side in memory: weights of convolutions, and images. No options.

Weights stay the parameters that they are. A model's first call is still in the old layout.
"""

from __future__ import annotations

import sys

from ..hints import Any, Done, Table
from .hook_points import at_models


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Each outermost model, when it is first called."""

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
