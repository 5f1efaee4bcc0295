"""Has cuDNN time its algorithms for each new shape and keep the fastest, or leave that.

Options: ``benchmark``, true or false.
"""

from __future__ import annotations

from .moments import at_start

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """When the training begins: until then the script may set the switch itself."""

    def act(torch: Any) -> None:
        torch.backends.cudnn.benchmark = bool(options["benchmark"])
        done()

    return at_start(act, done)
