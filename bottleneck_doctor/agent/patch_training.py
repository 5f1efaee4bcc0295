"""Marks backward passes, optimizer steps, and the first forward pass of loops that use no loader."""

from __future__ import annotations

import os
import sys
from time import monotonic_ns as now
from time import thread_time_ns

from . import clocks, compilation, device_clock, exchange, optimizers, switches, wire
from .guard import quiet, replace
from .patch_compiler import unless_traced
from .profiler import end_window
from .pulse import state
from .stop import due, stop

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


ALONE_FROM = 8  # optimizer steps in a row without a batch from a loader: more than models in one loop


class _Ears:
    """What can be put on and taken off: functions as (owner, name, wrapper, original), and optimizers' hooks
    as (torch's own table, number, hook): to register them anew each time would cost twenty microseconds."""

    def __init__(self) -> None:
        self.functions: list[tuple[Any, str, Any, Any]] = []
        self.hooks: list[tuple[dict[int, Any], int, Any]] = []


_ears = _Ears()


def patch_autograd(module: Any) -> None:
    """``module`` is torch.autograd; ``Tensor.backward`` looks ``backward`` up there at each call."""
    os.register_at_fork(after_in_child=listen)  # the child may train without any loader
    for name in ("backward", "grad"):
        original = getattr(module, name)
        replace(module, name, _backward)
        _ears.functions.append((module, name, getattr(module, name), original))


@quiet
def listen() -> None:
    """Put the hooks of backward and optimizer on, for a close look."""
    state.close = True
    if not state.resting:
        return
    state.resting = False
    for owner, name, wrapper, original in _ears.functions:
        if getattr(owner, name) is original:  # somebody else's wrapper stays where it is
            setattr(owner, name, wrapper)
    for table, number, hook in _ears.hooks:
        table[number] = hook


@quiet
def rest() -> None:
    """Take them off until the next close look: on a short step even a wrapper that does nothing, cold in the
    caches, costs a microsecond or two. Compiled code may guard on them: there they stay, and do nothing."""
    state.close, state.resting = False, True
    if compiling():
        return
    for owner, name, wrapper, original in _ears.functions:
        if getattr(owner, name) is wrapper:
            setattr(owner, name, original)
    for table, number, _ in _ears.hooks:
        table.pop(number, None)


def _backward(original: Callable[..., Any]) -> Callable[..., Any]:
    exchanges = original.__name__ == "backward"  # and autograd.grad does not

    def backward(*args: Any, **kwargs: Any) -> Any:
        if state.resting:
            return original(*args, **kwargs)
        state.backwards += 1
        if not state.close:
            return original(*args, **kwargs)
        entry = now()
        switches.during_backward(args)
        watch = exchange.watch(args[0]) if exchanges and exchange.models and args else None
        token = device_clock.begin()
        start, cpu = now(), thread_time_ns()
        try:
            return original(*args, **kwargs)
        finally:
            end = now()
            device_clock.part(token, wire.DEVICE_PARTS.index("backward"))
            state.row(wire.BACKWARD, start, end - start, thread_time_ns() - cpu, thread=state.thread())
            if watch is not None:
                watch.close()
            state.hooks_ns += start - entry + now() - end

    return backward


def patch_optimizer(module: Any) -> None:
    """``module`` is torch.optim.optimizer; its global hooks fire for every subclass."""
    optimizers.watch(module)
    before = module.register_optimizer_step_pre_hook(_untraced_before)
    after = module.register_optimizer_step_post_hook(_untraced_after)
    _ears.hooks = [
        (before.hooks_dict_ref(), before.id, _untraced_before),
        (after.hooks_dict_ref(), after.id, _untraced_after),
    ]


class _Open:
    """The optimizer step that is running."""

    start = 0
    cpu = 0
    arrivals = -1
    alone = 0
    handle: Any = None
    token: Any = None  # of the device's clock


def _before(optimizer: Any, args: Any, kwargs: Any) -> None:
    if state.close:
        entry = now()
        state.trainer = state.thread()
        _Open.token = device_clock.begin()
        _Open.start, _Open.cpu = now(), thread_time_ns()
        state.hooks_ns += _Open.start - entry


def _closure(args: Any, kwargs: Any) -> bool:
    """Whether ``step`` was handed a closure; torch counts the optimizer among ``args`` or does not."""
    return any(callable(one) and not hasattr(one, "param_groups") for one in [*args, *kwargs.values()])


def _after(optimizer: Any, args: Any, kwargs: Any) -> None:
    if state.resting:
        return
    state.optimizer_steps += 1
    if state.close and _Open.start:
        end = now()
        device_clock.part(_Open.token, wire.DEVICE_PARTS.index("optimizer"))
        state.row(
            wire.OPTIMIZER, _Open.start, end - _Open.start, state.optimizer_steps,
            thread_time_ns() - _Open.cpu, thread=state.thread(),
        )  # fmt: skip
        optimizers.note(optimizer, closure=_closure(args, kwargs))
        device_clock.seek(optimizer)
        state.hooks_ns += now() - end
    _Open.start = 0
    if not state.last_ns:  # no batch from a loader, and yet the training moves
        state.last_ns = now()
        state.begun(state.last_ns)
    if state.arrivals != _Open.arrivals:
        _Open.arrivals, _Open.alone = state.arrivals, 0
        return
    _Open.alone += 1  # no batch came from a loader since the last step
    if _Open.alone > ALONE_FROM:
        _alone()
        if state.stop_at and due():
            stop()


_untraced_before, _untraced_after = unless_traced(_before), unless_traced(_after)


@quiet
def _alone() -> None:
    """A loop without a loader: optimizer steps are its beat; the gap to the next forward pass is timed."""
    end = now()
    state.trained += 1
    device_clock.end(_Open)
    if state.window is not None:
        end_window()
    if state.countdown > 0:
        state.countdown -= 1
        state.close = False
        return
    state.close = True
    post = state.book.post
    state.last_ns = end
    compilation.note()
    post(wire.STEPS, state.trained)
    post(wire.TRAINED, state.trained)
    post(wire.LAST, end)
    if state.control is not None:
        state.control.look()
    state.countdown = state.not_beyond(state.stride - 1) if state.window is None else 0
    _await_forward(end)
    state.looked(now() - end, end, state.stride)


def _await_forward(end: int) -> None:
    """Register a forward hook that removes itself at the first call; never where code is compiled."""
    module: Any = sys.modules.get("torch.nn.modules.module")
    if module is None or _Open.handle is not None or compiling():
        return

    device_clock.ask(_Open, 0, True)
    number = state.thread()
    cpu, queue = thread_time_ns(), clocks.run_queue()

    def hook(called: Any, inputs: Any) -> None:
        handle, _Open.handle = _Open.handle, None
        if handle is not None:
            handle.remove()
            if state.thread() != number:  # another model's thread: its clocks say nothing of this one
                return
            device_clock.got(_Open)
            used, waited = thread_time_ns() - cpu, clocks.run_queue() - queue
            state.row(
                wire.FORWARD, end, now() - end, state.optimizer_steps, used, waited, cpu, queue, thread=number
            )

    _Open.handle = module.register_module_forward_pre_hook(hook)


def compiling() -> bool:
    """Whether torch.compile has compiled anything: then hooks must not come and go."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo is not None and dynamo.counters.get("frames"))
