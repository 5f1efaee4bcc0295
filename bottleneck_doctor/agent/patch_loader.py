"""Times the training loop's side of a DataLoader: construction, iterators, every ``next``."""

from __future__ import annotations

import sys
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns

from . import clocks, wire
from .describe import loader_facts
from .guard import quiet, replace
from .pulse import state
from .stop import due, stop


class Account:
    """What we know of one iterator. ``seen`` = backward passes when the last batch was asked for."""

    __slots__ = ("arrivals", "loader", "number", "seen", "thread", "wait_ns")

    def __init__(self, loader, number, thread, seen):
        self.loader, self.number, self.thread = loader, number, thread
        self.arrivals = self.wait_ns = 0
        self.seen = seen


def patch(module):
    """``module`` is torch.utils.data.dataloader."""
    replace(module.DataLoader, "__init__", _construction)
    replace(module.DataLoader, "__iter__", _epoch)
    replace(module._BaseDataLoaderIter, "__init__", _iterator)
    replace(module._BaseDataLoaderIter, "__next__", _arrival)


_numbers = [0]


def number_of(loader):
    """The loader's number in its process, given at first sight (unpickled loaders have none yet)."""
    number = loader.__dict__.get("_bdoc_number")
    if number is None:
        _numbers[0] += 1
        number = loader.__dict__["_bdoc_number"] = _numbers[0]
    return number


@quiet
def _describe(loader, frame, kwargs):
    state.book.fact(fact="loader", thing=number_of(loader), **loader_facts(loader, frame, kwargs))


def _construction(original):
    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if "_bdoc_number" not in self.__dict__:
            _describe(self, sys._getframe(1), kwargs)

    return __init__


def _iterator(original):
    def __init__(self, loader, *args, **kwargs):
        state.iterators += 1
        self._bdoc = Account(number_of(loader), state.iterators, state.thread(), state.backwards)
        original(self, loader, *args, **kwargs)

    return __init__


def _epoch(original):
    def __iter__(self):
        start = now()
        iterator = original(self)
        _opened(self, iterator, start)
        return iterator

    return __iter__


@quiet
def _opened(loader, iterator, start):
    """An epoch begins: note how long building took and, for worker processes, who they are."""
    account = iterator.__dict__.get("_bdoc")
    if account is None:
        return
    if account.arrivals:  # persistent workers: the same iterator begins again
        state.iterators += 1
        fresh = Account(account.loader, state.iterators, state.thread(), account.seen)
        account = iterator._bdoc = fresh
    taken = now() - start
    account.wait_ns += taken
    state.wait_ns += taken
    state.row(wire.EPOCH, start, taken, account.number, thing=account.loader, thread=account.thread)
    for place, worker in enumerate(getattr(iterator, "_workers", ())):
        state.row(wire.WORKERS, start, 0, worker.pid or 0, place, thing=account.loader)
    state.countdown = 0


def _arrival(original):
    def __next__(self):
        account = self.__dict__.get("_bdoc")
        if account is None:
            return original(self)
        if state.backwards != account.seen and account.thread == state.trainer:
            account.seen = state.backwards
            state.trained += 1
            if state.stop_at and due():
                stop()
        if state.countdown > 0 and account.arrivals:
            state.countdown -= 1
            state.close = False
            start = now()
            try:
                batch = original(self)
            except BaseException as ending:
                _ended(account, start, ending)
                raise
            taken = now() - start
            account.wait_ns += taken
            account.arrivals += 1
            if account.thread == state.trainer:
                state.wait_ns += taken
                state.arrivals += 1
            return batch
        return _closely(original, self, account)

    return __next__


def _closely(original, iterator, account):
    """The same as the cheap path, with every clock read; costs about ten microseconds."""
    begin = thread_time_ns()
    state.close = True
    state.inside = account
    cpu, process, queue = thread_time_ns(), process_time_ns(), clocks.run_queue()
    ready = _ready(iterator)
    start = now()
    try:
        batch = original(iterator)
    except BaseException as ending:
        state.inside = None
        _ended(account, start, ending)
        raise
    end = now()
    done = thread_time_ns()
    inside = done - cpu
    state.inside = None
    state.countdown = state.stride - 1
    taken = end - start
    account.wait_ns += taken
    account.arrivals += 1
    if account.thread == state.trainer:
        state.wait_ns += taken
        state.arrivals += 1
    _write(account, start, taken, (cpu, process, queue, ready, inside))
    state.looked(thread_time_ns() - done + cpu - begin, end)
    return batch


@quiet
def _write(account, start, taken, readings):
    cpu, process, queue, ready, inside = readings
    thread = state.thread()
    state.row(
        wire.NEXT, start, taken, account.arrivals, inside, account.wait_ns, state.backwards,
        state.optimizer_steps, account.loader, thread,
    )  # fmt: skip
    state.row(wire.LOOP, start, account.number, cpu, process, queue, ready, state.cost_ns, account.loader, thread)
    if thread == state.trainer:
        _post(start + taken)


def _post(end):
    """Tell the board; a thread that prefetches for the loop stays silent here."""
    post = state.book.post
    if not state.last_ns:
        state.begun(end)
    state.last_ns = end
    post(wire.STEPS, state.arrivals)
    post(wire.TRAINED, state.trained)
    post(wire.WAIT, state.wait_ns)
    post(wire.LAST, end)
    if state.control is not None:
        state.control.look()


@quiet
def _ended(account, start, ending):
    how = 1 if isinstance(ending, StopIteration) else 2
    taken = now() - start
    account.wait_ns += taken
    state.wait_ns += taken
    state.row(
        wire.END, start, taken, account.number, how, account.wait_ns, account.arrivals, state.backwards,
        account.loader, account.thread,
    )  # fmt: skip
    state.countdown = 0
    state.book.post(wire.WAIT, state.wait_ns)


def _ready(iterator):
    """Batches that wait for the loop, or NOTHING: finished out of turn, or in the result queue."""
    queue = iterator.__dict__.get("_data_queue")
    if queue is None:
        return wire.NOTHING
    try:
        early = sum(len(task) == 2 for task in iterator._task_info.values())
        return early + queue.qsize()
    except Exception:
        return wire.NOTHING


