"""Lets products in float32 round their factors.

Options: ``matmul``, as torch.set_float32_matmul_precision takes it; ``convolutions`` true for those of cuDNN,
too.
"""

from __future__ import annotations

from .moments import at_start

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """When the training begins: until then the script may set a precision of its own."""

    def act(torch: Any) -> None:
        torch.set_float32_matmul_precision(options["matmul"])
        if options.get("convolutions"):
            torch.backends.cudnn.allow_tf32 = True
        done()

    return at_start(act, done)
