"""Compiles once for all shapes: ``torch.compile`` is told that they change. No options."""

from __future__ import annotations

from . import wrap

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from . import Done, Table


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch is complete; ``Module.compile`` calls the same function."""
    return {"torch": lambda torch: wrap(torch, "compile", lambda original: _dynamic(original, done))}


def _dynamic(original: Callable[..., Any], done: Done) -> Callable[..., Any]:
    def compile_(*args: Any, **kwargs: Any) -> Any:
        done()
        return original(*args, **{**kwargs, "dynamic": True})

    return compile_
