"""Times loops that use no DataLoader: their steps are their backward passes.

A backward pass is what every such loop has: with an optimizer or hand-written updates, with closures (LBFGS),
accumulation, several models, compiled or not. What lies between it, or the optimizer step after it, and the
next call of a module is where such a loop gets its batch.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from threading import Condition, get_ident, get_native_id
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns

from . import clocks, compiler, device_clock, loader_facts, wire
from .guard import at_fork, quiet, replace, undo
from .hints import Any, Callable, FrameType
from .profiler import end_window
from .state import state
from .stop import due, stop

ALONE_FROM = 8  # backward passes in a row without a batch from a loader: more than models in one loop
CLOSURES = 64  # the same while a loader's iterator is open: more than an optimizer calls its closure
FRAMES_AT_MOST = 24  # between a backward pass and the script's own module
PLACES_AT_MOST = 32  # that ask for batches: a script may build a loader for each epoch


class _Loop:
    """The training loop of this process while it uses no DataLoader."""

    arrivals = -1  # batches from loaders when its last step ended
    looked = 0  # steps at its last sampled step
    alone = 0  # passes since a batch came from one
    only_grad = True  # `autograd.grad` is all that it has called so far
    steps_behind = False  # an optimizer steps behind the passes, and not only within them
    handle: Any = None  # of the hook that waits for a module to be called
    since = cpu = queue = 0  # what the gap is measured from: instant, thread's CPU and run queue
    ident = 0  # of the thread that trains, by Python's own number
    queued_ns = 0  # that it has waited in a queue, or for a future, since the last sampled step
    awaits: Any = None  # the condition that it waits for just now


def _forked() -> None:
    """A child's loop is its own: what the process counts begins anew there."""
    _Loop.arrivals, _Loop.looked, _Loop.alone, _Loop.only_grad = -1, 0, 0, True
    _Loop.queued_ns, _Loop.awaits, _Loop.steps_behind = 0, None, False


at_fork(_forked)
undo.append(lambda: _forget())
_reported: set[tuple[str, int]] = set()


@quiet
def passed(name: str) -> None:
    """A backward pass has ended; ``name`` is that of the function."""
    if name == "backward":
        _Loop.only_grad = False
    elif not _Loop.only_grad:
        return  # a penalty on gradients, within a step
    if not state.last_ns and not _Loop.only_grad:  # which compilers also call, while they trace
        _begin()
    came, _Loop.arrivals = state.arrivals - _Loop.arrivals, state.arrivals
    # Several between two passes are an evaluation's, unless a loader is known to be trained on.
    if came and (state.pacer is not None or (came == 1 and _Loop.alone <= ALONE_FROM)):
        _Loop.alone, state.loaderless = 0, False
        return
    _Loop.alone += 1
    if not _stepped_on_device():
        _end_step()


def _begin() -> None:
    """No batch from a loader, and yet the training moves."""
    state.last_ns = now()
    state.trainer = state.thread()
    state.begun(state.last_ns)


def _stepped_on_device() -> bool:
    """With a device a step ends with the optimizer: its clock is read from there to there."""
    return state.accelerator is not None and _Loop.steps_behind


def _end_step() -> None:
    from_loader = state.sampled is not None or state.pacer is not None
    if _Loop.alone > (CLOSURES if from_loader else ALONE_FROM) and state.thread() == state.trainer:
        _step_ended()


def _step_ended() -> None:
    end = now()
    if not state.last_ns:
        _begin()
    state.trained += 1
    state.loaderless = True
    device_clock.end(_Loop)
    if state.window is not None:
        end_window()
    if state.countdown > 0:
        if state.close:
            state.row(wire.NEXT_STEP, end, 0, state.trained, thread_time_ns(), thread=state.thread())
        state.countdown -= 1
        state.close = False
        return
    state.close = True
    _forget()
    state.last_ns = end
    compiler.note()
    post = state.writer.post
    post(wire.STEPS, state.trained)
    post(wire.TRAINED, state.trained)
    post(wire.LAST, end)
    post(wire.TRAINER, get_native_id())
    if state.control is not None:
        state.control.look()
    state.countdown = state.not_beyond(state.skip(state.trained)) if state.window is None else 0
    _Loop.since, _Loop.cpu, _Loop.queue = end, thread_time_ns(), clocks.run_queue()
    step = state.trained, _Loop.cpu, process_time_ns(), _Loop.queue
    state.row(wire.STEP, end, 0, *step, thread=state.thread())
    state.row(wire.USAGE, end, 0, *clocks.usage(), thread=state.thread())
    # From now on each wait of this thread in what `queue.Queue`, `Event` and futures wait in is timed. Each,
    # since the other thread fills the queue during a sample, which shortens the wait after it.
    if _Loop.ident != get_ident():
        _Loop.ident, _Loop.queued_ns = get_ident(), 0
        replace(Condition, "wait", _queued)
        replace(Condition, "notify", _waking)
    if _Loop.queued_ns:
        state.row(wire.QUEUE_WAIT, end, _Loop.queued_ns, thread=state.thread())
        _Loop.queued_ns = 0
    _await_forward()
    cost = now() - end
    state.row(wire.SAMPLING, end, cost, thread=state.thread())
    state.looked(cost, end, state.trained - _Loop.looked)
    _Loop.looked = state.trained
    if not _Loop.steps_behind and state.stop_at and due():
        stop()


def optimizer_stepped() -> None:
    """The gap before the next module begins behind the optimizer. Here a training may be ended."""
    _Loop.steps_behind = True
    if _stepped_on_device():
        _end_step()
    elif _Loop.handle is not None or _Loop.since:
        _Loop.queue, _Loop.cpu, _Loop.since = clocks.run_queue(), thread_time_ns(), now()
    if _Loop.alone > ALONE_FROM and state.stop_at and due():
        stop()


def _await_forward() -> None:
    """Register a forward hook that removes itself at the first call. Where code is compiled hooks must not
    come and go: there the compiled module's own call is heard."""
    module: Any = sys.modules.get("torch.nn.modules.module")
    if module is None or _Loop.handle is not None:
        return
    device_clock.ask(_Loop, 0, True)
    if compiler.compiling():
        return
    optimizers: Any = sys.modules.get("torch.optim.optimizer")
    if optimizers is not None:
        replace(optimizers.Optimizer, "zero_grad", _zeroing)
    number = state.thread()

    def hook(called: Any, inputs: Any) -> None:
        if state.thread() != number:
            _forget()  # another model's thread: its clocks say nothing of this one
        elif called_module():
            quiet(_ReturnHook)(called)

    _Loop.handle = module.register_module_forward_pre_hook(hook)


class _ReturnHook:
    """Removes itself when this call of the module ends, whichever way. In a copy or a pickle that the module
    makes of itself in that time it does nothing, and the agent is not needed to load that."""

    def __init__(self, module: Any) -> None:
        self.handle = module.register_forward_hook(self, always_call=True)

    def __call__(self, called: Any, inputs: Any, output: Any) -> None:
        self.handle.remove()
        returned()

    def __reduce__(self) -> Any:
        return getattr, (nullcontext(), "__exit__")  # None, whatever it is called with


@quiet
def returned() -> None:
    """The module that was called first has returned: the next batch may be got before the backward pass."""
    if state.close and not state.stepping:
        state.row(wire.FORWARD_END, now(), 0, state.trained, thread=state.thread())


def _queued(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(*args: Any, **kwargs: Any) -> Any:
        if get_ident() != _Loop.ident:
            return original(*args, **kwargs)
        _Loop.awaits, start = next(iter(args), None), now()
        try:
            return original(*args, **kwargs)
        finally:
            _Loop.queued_ns += now() - start
            _Loop.awaits = None

    return wait


def _waking(original: Callable[..., Any]) -> Callable[..., Any]:
    """The thread that wakes the loop is the one it waits for: post its id, so that the sensors sample it."""

    def notify(*args: Any, **kwargs: Any) -> Any:
        if _Loop.awaits is not None and _Loop.awaits in args:
            # Quiet, since the board may be gone when a thread notifies as the process ends.
            quiet(state.writer.post)(wire.FEEDER, get_native_id())
        return original(*args, **kwargs)

    return notify


def _zeroing(original: Callable[..., Any]) -> Callable[..., Any]:
    """It frees memory, which takes its time, and stands where such a loop gets its batch."""

    def zero_grad(*args: Any, **kwargs: Any) -> Any:
        if compiler.tracing() or not state.close or not _Loop.since:
            return original(*args, **kwargs)
        start = now()
        try:
            return original(*args, **kwargs)
        finally:
            state.row(wire.ZERO_GRAD, start, now() - start, thread=state.thread())

    return zero_grad


def called_module() -> bool:
    """A module is called: until now the loop was getting its batch, unless an optimizer calls its closure.
    Whether it is the one that was waited for."""
    end, since = now(), _Loop.since
    _forget()
    if not since or not state.close:
        return False
    device_clock.got(_Loop)
    taken = 0 if state.stepping else end - since
    used, waited = thread_time_ns() - _Loop.cpu, clocks.run_queue() - _Loop.queue
    state.row(wire.FORWARD, since, taken, state.trained, used, waited, thread=state.thread())
    return True


def _forget() -> None:
    handle, _Loop.handle, _Loop.since = _Loop.handle, None, 0
    if handle is not None:
        handle.remove()


@quiet
def tell_place(frame: FrameType | None, fact: str = "loop", thing: int = 0) -> None:
    """Once: where the training stands in the source, from the backward pass up to the script's own module; or
    where it asks a loader for a batch."""
    if (fact, thing) in _reported or (thing and len(_reported) > PLACES_AT_MOST):
        return
    _reported.add((fact, thing))
    chain: list[tuple[str, int, str]] = []
    while frame is not None and len(chain) < FRAMES_AT_MOST:
        code = frame.f_code
        chain.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    state.writer.fact(fact=fact, chain=chain)


def patch_module(module: Any) -> None:
    """``module`` is torch._dynamo.eval_frame: the call of a compiled module ends the gap before it."""

    def call(original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if compiler.tracing():
                return original(self, *args, **kwargs)
            loader_facts.remove_forward_hook()
            if not state.close or not called_module():
                return original(self, *args, **kwargs)
            try:
                return original(self, *args, **kwargs)
            finally:
                returned()

        return __call__

    replace(module.OptimizedModule, "__call__", call)
