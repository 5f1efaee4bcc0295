"""Keeps activations instead of computing them twice: checkpointed blocks are called as they are.

No options.
"""

from __future__ import annotations

from . import wrap

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import Done, Table

# what ``checkpoint`` takes for itself; everything else is the block's
OWN = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once the module that defines it is there: scripts and libraries take the function from it later."""
    return {
        "torch.utils.checkpoint": lambda module: wrap(module, "checkpoint", lambda original: _direct(done))
    }


def _direct(done: Done) -> Callable[..., Any]:
    def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        done()
        return function(*args, **{name: value for name, value in kwargs.items() if name not in OWN})

    return checkpoint
