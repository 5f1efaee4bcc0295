"""Leaves freed device memory with the allocator: calls of ``empty_cache`` do nothing. No options."""

from __future__ import annotations

from . import wrap

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch is complete: everybody takes the function from torch.cuda when it calls it."""
    return {"torch": lambda torch: wrap(torch.cuda, "empty_cache", lambda original: _nothing(done))}


def _nothing(done: Done) -> Callable[[], None]:
    return lambda: done()
