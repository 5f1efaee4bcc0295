"""Notes host-to-device copies, where torch was built for an accelerator; never synchronises."""

from __future__ import annotations

import sys
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .guard import quiet, replace
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


def patch(module: Any) -> None:
    """``module`` is torch, complete."""
    if module.version.cuda is None and getattr(module.version, "hip", None) is None:
        return
    for name in ("to", "cuda"):
        replace(module.Tensor, name, _timed)


def _timed(original: Callable[..., Any]) -> Callable[..., Any]:
    def copy(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not state.close or self.is_cuda:
            return original(self, *args, **kwargs)
        start, cpu = now(), thread_time_ns()
        moved = original(self, *args, **kwargs)
        if moved.is_cuda:
            _note(self, start, cpu, sys._getframe(1))
        return moved

    return copy


@quiet
def _note(tensor: Any, start: int, cpu: int, frame: FrameType) -> None:
    size = tensor.numel() * tensor.element_size()
    index = wire.OPERATIONS.index("copy")
    site = state.site("copy", frame)
    state.row(
        wire.OPERATION, start, now() - start, thread_time_ns() - cpu, size, index, thing=site,
        thread=state.thread(),
    )  # fmt: skip
