"""Builds a DataLoader with other arguments than the script gave: workers, prefetching, pinning, order.

Options: ``arguments`` {name: value} as for DataLoader; ``where`` {"file", "line"} of the call meant, or none
for every loader.
"""

from __future__ import annotations

import sys

from ..pulse import _users_frame
from . import wrap

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import Done, Table

NEED_WORKERS = ("prefetch_factor", "persistent_workers", "multiprocessing_context")


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""

    def patch(module: Any) -> None:
        wrap(module.DataLoader, "__init__", lambda original: _construction(original, options, done))

    return {"torch.utils.data.dataloader": patch}


def _construction(original: Callable[..., Any], options: dict[str, Any], done: Done) -> Callable[..., Any]:
    changed, where = options.get("arguments", {}), options.get("where")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if where is None or _called_from(where, sys._getframe(1)):
            kwargs = _settled({**kwargs, **changed})
            done()
        original(self, *args, **kwargs)

    return __init__


def _called_from(where: dict[str, Any], frame: Any) -> bool:
    found = _users_frame(frame)
    return found is not None and (found.f_code.co_filename, found.f_lineno) == (where["file"], where["line"])


def _settled(arguments: dict[str, Any]) -> dict[str, Any]:
    """Without workers, what only workers take is refused by torch."""
    if arguments.get("num_workers"):
        return arguments
    return {name: value for name, value in arguments.items() if name not in NEED_WORKERS}
