"""Notes whether the model that gets an iterator's first batch computes gradients: training, or evaluation."""

from __future__ import annotations

import sys
from time import monotonic_ns as now

from . import wire
from .compiler import compiling, starting
from .guard import quiet, undo
from .hints import TYPE_CHECKING, Any
from .state import state

if TYPE_CHECKING:
    from .state import IteratorCounts

NOTES_AT_MOST = 64  # iterators of a process
CALLS_AT_MOST = 16  # of modules without weights (transforms, losses) before the one that is waited for


class _ForwardHook:
    """The hook on all modules that waits for a forward pass, if one is registered, and how many were."""

    handle: Any = None
    count = 0


@quiet
def await_forward(account: IteratorCounts) -> None:
    """The first batch of an iterator has arrived. Before the first backward pass nothing is registered: it is
    not known yet whether the model is compiled, and torch warns of hooks on all modules where it is."""
    torch: Any = sys.modules.get("torch")
    remove()
    if torch is None or not state.trained or _ForwardHook.count >= NOTES_AT_MOST:
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
        if not late and (state.thread() != account.thread or not _learns(torch, module)):
            return
        remove()
        if not late:
            _note(account, torch.is_grad_enabled())

    return before


def _learns(torch: Any, module: Any) -> bool:
    weight = next(torch.nn.Module.parameters(module), None)
    return weight is not None and weight.requires_grad


@quiet
def remove() -> None:
    """Take the hook off: the forward pass has come, or a compiled module is called, at which torch warns."""
    handle, _ForwardHook.handle = _ForwardHook.handle, None
    if handle is not None:
        handle.remove()


undo.append(remove)
starting.append(remove)


def _note(account: IteratorCounts, grad: bool) -> None:
    state.row(
        wire.GRAD_MODE, now(), 0, account.number, int(grad), thing=account.loader, thread=account.thread
    )
