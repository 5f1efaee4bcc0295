"""Notes where a process's start goes: before torch, importing torch, and imports after it."""

from __future__ import annotations

from time import monotonic_ns as now

from .guard import quiet
from .importing import pace
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

_marks = {"torch_begin_ns": 0, "torch_end_ns": 0, "torch_imports_ns": 0}


def torch_begins(module: Any) -> None:
    """``module`` is torch.torch_version: among the first that torch imports."""
    _marks["torch_begin_ns"] = now()
    _marks["torch_imports_ns"] = pace.busy_ns


def torch_ends() -> None:
    """torch is complete."""
    _marks["torch_end_ns"] = now()
    _marks["torch_imports_ns"] = pace.busy_ns - _marks["torch_imports_ns"]


@quiet
def tell() -> None:
    """The first batch is here: say how the time until now went. ``imports_ns`` is without torch's own."""
    other = max(0, pace.busy_ns - _marks["torch_imports_ns"])
    state.book.fact(fact="startup", first_batch_ns=now(), imports_ns=other, **_marks)
