"""Notes whether the first forward pass of an iterator records for a backward pass: evaluation should not."""

from __future__ import annotations

import sys
from time import monotonic_ns as now

from . import wire
from .compilation import compiling
from .guard import quiet
from .pulse import state
from .types import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .counting import IteratorCounts

LOOKS_AT_MOST = 64  # iterators of a process
CALLS_AT_MOST = 16  # of modules without weights (transforms, losses) before the one that is waited for


class _ForwardHook:
    """The hook that waits for a forward pass, if there is one, and how often we looked."""

    handle: Any = None
    count = 0


@quiet
def await_forward(account: IteratorCounts) -> None:
    """The first batch of an iterator is here. Before the first backward pass nothing is watched: whether the
    model is compiled is not yet known, and torch warns of hooks on all modules where it is."""
    torch: Any = sys.modules.get("torch")
    _remove()
    if torch is None or not state.trained or _ForwardHook.count >= LOOKS_AT_MOST:
        return
    _ForwardHook.count += 1
    if not torch.is_grad_enabled():
        _note(account, False)
    elif not compiling():
        modules: Any = sys.modules["torch.nn.modules.module"]
        _ForwardHook.handle = modules.register_module_forward_pre_hook(_hook(torch, account))


def _hook(torch: Any, account: IteratorCounts) -> Any:
    batch, calls = state.arrivals, [0]

    @quiet
    def before(module: Any, inputs: Any) -> None:
        calls[0] += 1
        late = state.arrivals != batch or calls[0] > CALLS_AT_MOST
        if not late and (state.thread() != account.thread or not _learns(module)):
            return
        _remove()
        if not late:
            _note(account, torch.is_grad_enabled())

    return before


def _learns(module: Any) -> bool:
    weight = next(iter(module.parameters()), None)
    return weight is not None and weight.requires_grad


def _remove() -> None:
    handle, _ForwardHook.handle = _ForwardHook.handle, None
    if handle is not None:
        handle.remove()


def _note(account: IteratorCounts, grad: bool) -> None:
    state.row(
        wire.GRAD_MODE, now(), 0, account.number, int(grad), thing=account.loader, thread=account.thread
    )
