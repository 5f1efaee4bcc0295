"""Notes where a process's start goes: before torch, importing torch, and imports after it."""

from __future__ import annotations

from time import monotonic_ns as now

from .guard import quiet
from .importing import pace
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from typing import Any

_marks = {"torch_begin_ns": 0, "torch_end_ns": 0}
_before = [0, 0]  # what other modules, and torch's, had taken when torch was complete


def torch_begins(module: Any) -> None:
    """``module`` is torch.torch_version: among the first that torch imports."""
    _marks["torch_begin_ns"] = now()
    _before[0] = pace.other_ns


def torch_ends() -> None:
    """torch is complete: what was imported meanwhile was for it."""
    _marks["torch_end_ns"] = now()
    _before[0] = pace.other_ns - _before[0]
    _before[1] = pace.torch_ns


@quiet
def tell() -> None:
    """The first batch is here: say how the time until now went."""
    other, late = pace.other_ns - _before[0], pace.torch_ns - _before[1]
    state.book.fact(
        fact="startup", first_batch_ns=now(), imports_ns=max(0, other), torch_late_ns=max(0, late), **_marks
    )
