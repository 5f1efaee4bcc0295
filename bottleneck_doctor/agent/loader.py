"""Times the training loop's side of a DataLoader: construction, iterators, ``next``, draws of indices.

Counts steps, and decides which are sampled; the others are taken to be like those. Functions of the user's
that are named as sources of batches (``--data-fn module:function``) are timed like a loader's ``next``.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns
from types import SimpleNamespace

from . import clocks, compiler, device_clock, wire
from .fetch import close_fetch, open_fetch, stops
from .guard import postponed, put, quiet, raise_postponed, replace, uncounted, undo, when_built
from .hints import Any, Callable, FrameType
from .loader_facts import OlderLoader, await_forward, loader_facts
from .loop_without_loader import tell_place
from .profiler import end_window, ends_regularly, leave_with
from .state import IteratorCounts, state
from .stop import due, stop
from .training import listen, rest


class _Draws:
    """Stands for one iterator's ``_next_index`` for a while, and does not keep the iterator alive."""

    def __init__(self, original: Callable[[Any], Any], iterator: Any) -> None:
        self.original, self.iterator = original, weakref.ref(iterator)
        self.taken = self.cpu = self.count = 0

    @uncounted
    def __call__(self) -> Any:
        start, cpu = now(), thread_time_ns()
        try:
            return self.original(self.iterator())
        finally:
            self.cpu += thread_time_ns() - cpu
            self.taken += now() - start
            self.count += 1


@quiet
def open_sampler(iterator: Any) -> None:
    """From now on this iterator's draws are timed, and only this one's."""
    original = getattr(type(iterator), "_next_index", None)
    if original is not None and "_next_index" not in iterator.__dict__:
        iterator.__dict__["_next_index"] = _Draws(original, iterator)


@quiet
def close_sampler(iterator: Any, loader: int, begins: bool = False) -> None:
    """Restore the iterator and write down the time of its draws. ``begins``: they began an epoch."""
    draws = iterator.__dict__.pop("_next_index", None)
    if isinstance(draws, _Draws) and draws.count:
        state.row(
            wire.DRAWS, now(), draws.taken, draws.cpu, draws.count, int(begins), thing=loader,
            thread=state.thread(),
        )  # fmt: skip


def patch(module: Any) -> None:
    """``module`` is torch.utils.data.dataloader."""
    replace(module.DataLoader, "__init__", when_built(_describe))
    replace(module.DataLoader, "__iter__", _epoch)
    replace(module._BaseDataLoaderIter, "__init__", _iterator)
    replace(module._BaseDataLoaderIter, "__next__", _arrival)
    replace(module._MultiProcessingDataLoaderIter, "_shutdown_workers", stops)


def patch_stateful(module: Any) -> None:
    """``module`` is torchdata.stateful_dataloader.stateful_dataloader: its loader calls none of torch's."""
    replace(module.StatefulDataLoader, "__init__", when_built(_describe))
    replace(module.StatefulDataLoader, "__iter__", _epoch)
    replace(module._StatefulMultiProcessingDataLoaderIter, "_shutdown_workers", stops)


_numbers = [0]
_marked: dict[int, weakref.ref[Any]] = {}  # loaders and iterators that hold the agent's attributes


def _mark(thing: Any) -> None:
    _marked[id(thing)] = weakref.ref(thing)


def _unmark() -> None:
    for found in _marked.values():
        for name in ("_bdoc", "_bdoc_number"):
            getattr(found(), "__dict__", {}).pop(name, None)


undo.append(_unmark)


def number_of(loader: Any) -> int:
    """The loader's number in this process, given at first sight."""
    pid, number = _known_as(loader)
    if pid != os.getpid():
        _numbers[0] += 1
        number = _numbers[0]
        loader.__dict__["_bdoc_number"] = os.getpid(), number
        _mark(loader)
    return number


def _known_as(loader: Any) -> tuple[int, int]:
    """(pid, number there): a loader may have come from another process, by fork or in a pickle."""
    known: tuple[int, int] = loader.__dict__.get("_bdoc_number", (0, 0))
    return known


@quiet
def _describe(loader: Any, frame: FrameType | None = None, kwargs: dict[str, Any] | None = None) -> None:
    """Once in each process; without a frame where it is iterated first: another one may know who built it."""
    origin = _known_as(loader)
    if origin[0] != os.getpid():
        facts = loader_facts(loader, frame, kwargs or {})
        state.writer.fact(fact="loader", thing=number_of(loader), origin="%d:%d" % origin, **facts)


def _iterator(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        _know(self, loader)
        open_sampler(self)
        original(self, loader, *args, **kwargs)

    return __init__


def _know(iterator: Any, loader: Any) -> None:
    state.iterators += 1
    _describe(loader)
    iterator._bdoc = IteratorCounts(number_of(loader), state.iterators, state.thread())
    _mark(iterator)


@quiet
def _adopt(iterator: Any) -> None:
    """An iterator built before the agent came: from its next batch on it is watched, in an epoch of its own;
    never if its class is unknown."""
    iterator._bdoc = None
    _mark(iterator)
    _know(iterator, OlderLoader(iterator))
    _opened(iterator, now())


def _epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    def __iter__(self: Any) -> Any:
        start = now()
        iterator = self.__dict__.get("_iterator")
        if iterator is not None:  # persistent workers: the same iterator begins again
            if iterator.__dict__.get("_bdoc") is None:  # built before the agent came
                quiet(_know)(iterator, self)
            open_sampler(iterator)
        iterator = original(self)
        _opened(iterator, start)
        return iterator

    return __iter__


@quiet
def _opened(iterator: Any, start: int) -> None:
    """An epoch begins: note how long building took and, for worker processes, who they are."""
    account = iterator.__dict__.get("_bdoc")
    if account is None:
        return
    close_sampler(iterator, account.loader, begins=True)
    if account.arrivals:
        state.iterators += 1
        account = iterator._bdoc = IteratorCounts(account.loader, state.iterators, state.thread())
    device_clock.drop()
    taken = now() - start
    account.wait_ns += taken
    if account.thread == state.trainer:
        state.tally(account)
    state.row(wire.EPOCH, start, taken, account.number, thing=account.loader, thread=account.thread)
    if account.loader == state.trained_on:
        state.writer.post(wire.EPOCH_AT, state.trained)
    for place, worker in enumerate(getattr(iterator, "_workers", ())):
        state.row(wire.WORKER, start, 0, worker.pid or 0, place, thing=account.loader)


def _arrival(original: Callable[..., Any]) -> Callable[..., Any]:
    def __next__(self: Any) -> Any:
        if postponed:
            raise_postponed()
        account: IteratorCounts | None = self.__dict__.get("_bdoc")
        if account is None:
            if "_bdoc" not in self.__dict__:
                _adopt(self)
            return original(self)
        if account.countdown <= 0:
            return _closely(original, self, account)
        account.countdown -= 1
        if not state.resting and account.thread == state.trainer:
            _heard(account)
        start = now()
        try:
            batch = original(self)
        except BaseException as ending:
            _ended(account, start, ending)
            raise
        account.wait_ns += now() - start
        account.arrivals += 1
        if not state.resting and account.thread == state.trainer:
            state.tally(account)
        return batch

    return __next__


@uncounted
def _closely(original: Callable[..., Any], iterator: Any, account: IteratorCounts) -> Any:
    """The same as the cheap path, with every clock read; costs about ten microseconds of CPU, and more time
    where cores are scarce: that time is counted to no step."""
    entry = now()
    if state.window is not None:
        end_window(account.loader)
    account.thread = state.thread()  # an iterator may be built by one thread and asked by another
    ours = account.thread == state.trainer
    if ours:  # marks first: what we spend until the loop waits, the device would be idle for
        device_clock.end(account)
        device_clock.ask(account, account.loader)
        _settle(account)
    state.inside = account
    fetcher = open_fetch(iterator)
    open_sampler(iterator)
    cpu, process, queue = thread_time_ns(), process_time_ns(), clocks.run_queue()
    ready = _ready(iterator)
    start = now()
    try:
        batch = original(iterator)
    except BaseException as ending:
        _ended(account, start, ending)
        raise
    finally:
        end, done, queued = now(), thread_time_ns(), clocks.run_queue() - queue
        device_clock.got(account)
        state.inside = None
        close_fetch(fetcher)
        close_sampler(iterator, account.loader, begins=not account.arrivals)
    taken = end - start
    account.wait_ns += taken
    account.arrivals += 1
    if ours:
        state.tally(account)
    _write(account, start, taken, (cpu, process, queue, ready, done - cpu, queued))
    if state.window is not None and account.loader < FIRST_NUMBER:
        leave_with(iterator)
    if account.left_ns:
        spent = account.spent_ns + start - entry
        state.row(wire.SAMPLING, account.left_ns, spent, thing=account.loader, thread=account.thread)
    account.countdown = state.not_beyond(state.skip(account.arrivals)) if state.window is None else 0
    account.left_ns, account.spent_ns = end, now() - end
    state.looked(start - entry + account.spent_ns, end, account.arrivals - account.looked)
    account.looked = account.arrivals
    if ours and account.arrivals == 1:
        await_forward(account)
        tell_place(sys._getframe(1).f_back, "asked", account.loader)  # none above, in a thread begun in C
    return batch


def _settle(account: IteratorCounts) -> None:
    """At a sampled step: count the step that ended here, and put the hooks on for the one that begins."""
    if not state.resting:
        _count()
        if state.sampled is account:
            _learn(account)
    state.catch_up(account)
    account.seen = (state.backwards, state.optimizer_steps)
    account.paced = state.pacer.arrivals if state.pacer is not None else 0
    state.sampled = account
    listen()
    if state.stop_at and due():
        stop()


def _heard(account: IteratorCounts) -> None:
    """A step ended while the hooks were on; if it was this iterator's, and it trained, they may rest."""
    entry = now()
    device_clock.end(account)
    _count()
    if state.sampled is account:
        _learn(account)
        state.sampled, state.close = None, False
        pacer = state.pacer
        if pacer is not None and account.rate[0]:
            pacer.rested = pacer.arrivals - (pacer is not account)  # another's step goes on
            rest()
            state.hooks_ns += now() - entry


def _count() -> None:
    if state.backwards != state.seen:
        state.seen = state.backwards
        if not state.loaderless:
            state.trained += 1


def _learn(account: IteratorCounts) -> None:
    """The counts of one sampled step stand for the steps until the next one. Only one of
    several open iterators is so extrapolated, and kept: each change loses the steps in between."""
    backwards, steps = account.seen
    account.rate = (state.backwards - backwards, state.optimizer_steps - steps)
    pacer = state.pacer
    if account.rate[0]:
        state.trained_on = account.loader
        state.pacer = account if pacer is None or pacer.arrivals == account.paced else pacer
    elif pacer is account:
        state.pacer = None


@quiet
def _write(
    account: IteratorCounts, start: int, taken: int, readings: tuple[int, int, int, int | None, int, int]
) -> None:
    cpu, process, queue, ready, inside, queued = readings
    ready = wire.NOTHING if ready is None else ready
    thread = state.thread()
    state.row(
        wire.NEXT, start, taken, account.arrivals, inside, account.wait_ns, state.backwards,
        state.optimizer_steps, account.loader, thread,
    )  # fmt: skip
    state.row(wire.CLOCKS, start, account.number, cpu, process, queue, ready, queued, account.loader, thread)
    state.row(wire.USAGE, start, 0, *clocks.usage(), thing=account.loader, thread=thread)
    if thread != state.trainer:  # it prefetches for the loop
        return
    post, end = state.writer.post, start + taken
    if not state.last_ns:
        state.begun(end)
    state.last_ns = end
    compiler.note()
    device_clock.seek()
    post(wire.STEPS, state.arrivals)
    post(wire.TRAINED, state.trained)
    post(wire.WAIT, state.wait_ns)
    post(wire.LAST, end)
    if state.control is not None:
        state.control.look()


@quiet
def _ended(account: IteratorCounts, start: int, ending: BaseException) -> None:
    how = wire.EXHAUSTED if isinstance(ending, StopIteration) else wire.FAILED
    taken = now() - start
    account.wait_ns += taken
    if account.thread == state.trainer:
        state.tally(account)
        state.catch_up(account)
    state.row(
        wire.END, start, taken, account.number, how, account.wait_ns, account.arrivals, state.backwards,
        account.loader, account.thread,
    )  # fmt: skip
    state.writer.post(wire.WAIT, state.wait_ns)
    ends_regularly(account)
    if account.thread == state.trainer:
        device_clock.drop()
    if state.sampled is account or state.pacer is account:  # what comes now may have no loader
        state.sampled = state.pacer = None
        listen()


@quiet
def _ready(iterator: Any) -> int | None:
    """Batches that wait for the loop: finished out of turn, or in the result queue; None without workers."""
    queue = iterator.__dict__.get("_data_queue")
    if queue is None:
        return None
    early = sum(len(task) == 2 for task in iterator._task_info.values())
    ready: int = early + queue.qsize()
    return ready


FIRST_NUMBER = 1 << 16  # above any loader's number in its process
_wanted: list[tuple[int, str, str]] = []


def mark_functions(text: str) -> None:
    """Remember what to wrap: ``module:function``, comma between several; ``__main__`` is the script."""
    for number, item in enumerate(part for part in text.split(",") if part):
        module, _, name = item.partition(":")
        _wanted.append((FIRST_NUMBER + number, module, name))


@quiet
def wrap_functions() -> None:
    """Wrap each function whose module holds it by now; called when the training begins to move."""
    main = sys.modules.get("__main__")
    script = os.path.splitext(os.path.basename(getattr(main, "__file__", None) or ""))[0]
    for wish in list(_wanted):
        number, name, attribute = wish
        module = sys.modules.get(name) or (main if name == script else None)
        function = getattr(module, attribute, None)
        if callable(function):
            _wanted.remove(wish)
            account = _introduce_function(number, attribute, function)
            put(module, attribute, _timed_function(function, account), function)


def _introduce_function(number: int, name: str, function: Callable[..., Any]) -> IteratorCounts:
    code = getattr(function, "__code__", None)
    file, line = (os.path.abspath(code.co_filename), code.co_firstlineno) if code else ("", 0)
    state.writer.fact(
        fact="loader", thing=number, kind="function", dataset=name, file=file, line=line, function=name,
        num_workers=0,
    )  # fmt: skip
    state.iterators += 1
    account = IteratorCounts(number, state.iterators, state.thread())
    state.row(wire.EPOCH, now(), 0, account.number, thing=number, thread=state.thread())
    return account


def _timed_function(function: Callable[..., Any], account: IteratorCounts) -> Callable[..., Any]:
    taken = _arrival(lambda call: function(*call.args, **call.kwargs))

    @functools.wraps(function)
    def fetch(*args: Any, **kwargs: Any) -> Any:
        return taken(SimpleNamespace(_bdoc=account, args=args, kwargs=kwargs))  # an iterator asked once

    return fetch
