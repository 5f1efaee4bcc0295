"""Shares tensors between processes by name instead of by file descriptor, as the script could ask torch to.

Options: ``strategy``, as torch.multiprocessing.set_sharing_strategy takes it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch.multiprocessing is there; a script that sets its own strategy later has the last word."""

    def patch(module: Any) -> None:
        module.set_sharing_strategy(options.get("strategy", "file_system"))
        done()

    return {"torch.multiprocessing": patch}
