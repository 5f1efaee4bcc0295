"""Marks backward passes, optimizer steps, and garbage collections that take long enough to be felt."""

from __future__ import annotations

import gc
import sys
from threading import get_native_id
from time import monotonic_ns as now

from . import (
    compiler,
    device_clock,
    dropped_gradients,
    loop_without_loader,
    optimizers,
    ranks,
    torch_settings,
    wire,
)
from .compiler import compiling, unless_traced
from .guard import at_fork, quiet, replace, undo
from .hints import TYPE_CHECKING, Any, Callable
from .state import state

if TYPE_CHECKING:
    from .state import IteratorCounts

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


class _TrainingHooks:
    """What can be put on and taken off: functions as (owner, name, wrapper, original), and optimizers' hooks
    as (torch's own table, number, hook): to register them anew each time would cost twenty microseconds."""

    def __init__(self) -> None:
        self.functions: list[tuple[Any, str, Any, Any]] = []
        self.hooks: list[tuple[dict[int, Any], int, Any]] = []


_patches = _TrainingHooks()


def patch_autograd(module: Any) -> None:
    """``module`` is torch.autograd; ``Tensor.backward`` looks ``backward`` up there at each call."""
    at_fork(listen)  # the child may train without any loader
    for name in ("backward", "grad"):
        original = getattr(module, name)
        replace(module, name, _backward)
        _patches.functions.append((module, name, getattr(module, name), original))


@quiet
def listen() -> None:
    """Put the hooks of backward and optimizer on, for a close look."""
    state.close = True
    if not state.resting:
        return
    state.resting = False
    for owner, name, wrapper, original in _patches.functions:
        if getattr(owner, name) is original:  # somebody else's wrapper stays where it is
            setattr(owner, name, wrapper)
    for table, number, hook in _patches.hooks:
        table[number] = hook


@quiet
def rest() -> None:
    """Take them off until the next close look: on a short step even a wrapper that does nothing, cold in the
    caches, costs a microsecond or two. Compiled code may guard on them: there they stay, and do nothing."""
    state.close, state.resting = False, True
    dropped_gradients.look_away()
    if compiler.compiling():
        return
    for owner, name, wrapper, original in _patches.functions:
        if getattr(owner, name) is wrapper:
            setattr(owner, name, original)
    for table, number, _ in _patches.hooks:
        table.pop(number, None)


def _backward(original: Callable[..., Any]) -> Callable[..., Any]:
    name = original.__name__
    exchanges = name == "backward"  # and autograd.grad does not

    def backward(*args: Any, **kwargs: Any) -> Any:
        if state.resting or compiler.tracing():  # a compiler differentiates, too, while it traces
            return original(*args, **kwargs)
        state.backwards += 1
        if not state.close:
            state.passing += 1
            try:
                return original(*args, **kwargs)
            finally:
                _passed(name)
        entry = now()
        state.passing += 1
        torch_settings.during_backward(args)
        if exchanges and not kwargs.get("inputs"):
            dropped_gradients.before_backward(args)
        watch = ranks.watch(args[0]) if exchanges and ranks.models and args else None
        token = device_clock.begin(True)
        start = now()
        try:
            return original(*args, **kwargs)
        finally:
            end = now()
            device_clock.part(token, wire.DEVICE_PARTS.index("backward"))
            state.row(wire.BACKWARD, start, end - start, thread=state.thread())
            if watch is not None:
                watch.close()
            state.hooks_ns += start - entry + now() - end
            loop_without_loader.tell_place(sys._getframe().f_back)
            _passed(name)

    return backward


def _passed(name: str) -> None:
    state.passing -= 1  # one may hold another: checkpointed activations
    if state.stepped_within and not state.passing:
        state.optimizer_steps += 1
        state.stepped_within = False
    loop_without_loader.passed(name)


def patch_optimizer(module: Any) -> None:
    """``module`` is torch.optim.optimizer; its global hooks fire for every subclass."""
    optimizers.watch(module)
    before = module.register_optimizer_step_pre_hook(_untraced_before)
    after = module.register_optimizer_step_post_hook(_untraced_after)
    undo.extend((before.remove, after.remove, _remove))
    _patches.hooks = [
        (before.hooks_dict_ref(), before.id, _untraced_before),
        (after.hooks_dict_ref(), after.id, _untraced_after),
    ]


class _Open:
    """The optimizer step that is running."""

    start = 0
    token: Any = None  # of the device's clock


def _before(optimizer: Any, args: Any, kwargs: Any) -> None:
    if state.passing:
        return
    state.stepping = True
    if state.close:
        entry = now()
        trainer = state.thread()
        if trainer != state.trainer:
            state.trainer = trainer
            state.writer.post(wire.TRAINER, get_native_id())
        _Open.token = device_clock.begin()
        _Open.start = now()
        state.hooks_ns += _Open.start - entry


def _closure(args: Any, kwargs: Any) -> bool:
    """Whether ``step`` was handed a closure; torch counts the optimizer among ``args`` or does not."""
    return any(callable(one) and not hasattr(one, "param_groups") for one in [*args, *kwargs.values()])


def _after(optimizer: Any, args: Any, kwargs: Any) -> None:
    if state.passing:
        _stepped_within(optimizer, args, kwargs)
        return
    state.stepping = False
    if state.resting:
        return
    state.optimizer_steps += 1
    if state.close and _Open.start:
        end = now()
        device_clock.part(_Open.token, wire.DEVICE_PARTS.index("optimizer"))
        state.row(wire.OPTIMIZER, _Open.start, end - _Open.start, thread=state.thread())
        optimizers.note(optimizer, closure=_closure(args, kwargs))
        dropped_gradients.stepped(optimizer)
        device_clock.seek(optimizer)
        state.hooks_ns += now() - end
    _Open.start = 0
    loop_without_loader.optimizer_stepped()


def _stepped_within(optimizer: Any, args: Any, kwargs: Any) -> None:
    """Optimizers of single parameters step while the backward pass runs, of CUDA tensors in a thread of
    autograd's own: together they are one step, whose time is the pass's."""
    if not state.stepped_within:
        state.stepped_within = True
        if state.close:
            optimizers.note(optimizer, closure=_closure(args, kwargs))
            device_clock.seek(optimizer)


_untraced_before, _untraced_after = unless_traced(_before), unless_traced(_after)


NOTED_NS = 200_000
FULL = 2  # the generation whose collection visits every object
_collecting_since = [0]
_named: list[Any] = [None]


def watch_collections() -> None:
    """Listen to the collector; it calls back in the thread that it interrupts."""
    gc.callbacks.append(_collected)
    undo.append(lambda: gc.callbacks.remove(_collected))


def _collected(phase: str, info: dict[str, Any]) -> None:
    try:
        if state.window is not None:
            _name_collection(phase, info.get("generation", 0))
        if phase == "start":
            _collecting_since[0] = now()
            return
        since = _collecting_since[0]
        taken = now() - since
        if taken >= NOTED_NS and since:
            state.row(wire.COLLECTION, since, taken, info.get("generation", 0), thread=state.thread())
    except BaseException:
        pass


def _name_collection(phase: str, generation: int) -> None:
    """In a profiler's window: collections of every object have their name in the trace."""
    span, _named[0] = _named[0], None
    if span is not None:
        span()
    if phase == "start" and generation >= FULL and state.window is not None:
        _named[0] = state.window.name("gc", None)
