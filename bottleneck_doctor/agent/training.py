"""Marks backward passes, optimizer steps, and garbage collections that take long enough to be felt."""

from __future__ import annotations

import functools
import gc
import sys
from threading import get_native_id
from time import monotonic_ns as now

from . import compiler, device_clock, loop_without_loader, optimizers, ranks, torch_settings, wire
from .compiler import unless_traced
from .guard import at_fork, postpone, postponed, quiet, raise_postponed, replace, undo
from .hints import Any, Callable, Generator
from .state import state

ENGINE = "_engine_run_backward"  # of torch.autograd, since torch 2.3


# What can be put on and taken off: registering optimizers' hooks anew each time would cost 20 microseconds.
_engine: list[tuple[Any, Any, Any]] = []  # (torch.autograd, the wrapper of ENGINE, torch's own)
_optimizer_hooks: list[tuple[dict[int, Any], int, Any]] = []  # (torch's table, number in it, hook)


def patch_autograd(module: Any) -> None:
    """``module`` is torch.autograd, whose ``backward`` and ``grad`` look this function up at each call. They
    themselves stay torch's own: TorchScript and Dynamo know both by identity."""
    at_fork(listen)  # the child may train without any loader
    original = getattr(module, ENGINE)
    replace(module, ENGINE, _run_backward)
    _engine.append((module, getattr(module, ENGINE), original))


@quiet
def listen() -> None:
    """Put the hooks of backward and optimizer on, for a sampled step."""
    state.close = True
    if not state.resting:
        return
    state.resting = False
    for module, wrapper, original in _engine:
        if getattr(module, ENGINE) is original:  # a wrapper of the script's stays where it is
            setattr(module, ENGINE, wrapper)
    _hook_optimizers()


@quiet
def _hook_optimizers() -> None:
    """Also before a graph is traced, which guards on how many hooks there are: from then on they stay on."""
    for table, number, hook in _optimizer_hooks:
        table[number] = hook


compiler.starting.append(_hook_optimizers)


@quiet
def rest() -> None:
    """Take them off until the next sampled step: on a short step even a wrapper that does nothing, cold in
    the caches, costs a microsecond or two. Graphs guard on optimizers' hooks: compiled, these stay on."""
    state.close, state.resting = False, True
    for module, wrapper, original in _engine:
        if getattr(module, ENGINE) is wrapper:
            setattr(module, ENGINE, original)
    compiler.watch()
    if not compiler.compiling():
        for table, number, _ in _optimizer_hooks:
            table.pop(number, None)


def _run_backward(original: Callable[..., Any]) -> Callable[..., Any]:
    def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        if postponed:
            raise_postponed()
        if state.resting or compiler.tracing() or compiler.context():  # compilers differentiate, too
            return original(outputs, *args, **kwargs)
        name = "backward" if kwargs.get("accumulate_grad", True) else "grad"
        state.backwards += 1
        if not state.close:
            state.passing += 1
            try:
                return original(outputs, *args, **kwargs)
            finally:
                _passed(name)
        entry = now()
        torch_settings.during_backward(outputs)
        watch = ranks.watch(outputs) if name == "backward" and ranks.models else None
        token = device_clock.begin(True)
        start = now()
        state.passing += 1
        try:
            return original(outputs, *args, **kwargs)
        finally:
            end = now()
            device_clock.part(token, wire.DEVICE_PARTS.index("backward"))
            state.row(wire.BACKWARD, start, end - start, thread=state.thread())
            if watch is not None:
                watch.close()
            state.hooks_ns += start - entry + now() - end
            loop_without_loader.tell_place(sys._getframe().f_back)
            _passed(name)

    return run_backward


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
    undo.extend((before.remove, after.remove))
    _optimizer_hooks[:] = [
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


_untraced_before, _untraced_after = unless_traced(quiet(_before)), unless_traced(quiet(_after))


NOTED_NS = 200_000
FULL = 2  # the generation whose collection visits every object
_collecting_since = [0]
_named: list[Any] = [None]


def watch_collections() -> None:
    """Listen to the collector; it calls back in the thread that it interrupts."""
    listener = _listener()
    next(listener)
    # ``max`` hands both arguments of a callback to the generator without a Python frame in between.
    callback = functools.partial(max, key=listener.send)
    gc.callbacks.append(callback)
    undo.append(listener.close)


def _listener() -> Generator[int, Any, None]:
    """Receives phase and details of each collection by turns. The handler of a signal that arrived during a
    collection runs in here, and Python drops what a callback raises. A function can be interrupted before its
    first ``try``; a generator waits inside of one."""
    try:
        while True:
            try:
                while True:
                    phase = yield 0
                    _collected(phase, (yield 0).get("generation", 0))
            except GeneratorExit:
                raise
            except BaseException as error:
                postpone(error)
    finally:  # closed, or interrupted twice at a time
        gc.callbacks[:] = [one for one in gc.callbacks if getattr(one, "func", None) is not max]


def _collected(phase: str, generation: int) -> None:
    window = state.window
    if window is not None:  # in its trace, collections of every object have their name
        span, _named[0] = _named[0], None
        if span is not None:
            span()
        if phase == "start" and generation >= FULL:
            _named[0] = window.name("gc", None)
    if phase == "start":
        _collecting_since[0] = now()
        return
    since = _collecting_since[0]
    taken = now() - since
    if taken >= NOTED_NS and since:
        state.row(wire.COLLECTION, since, taken, generation, thread=state.thread())
