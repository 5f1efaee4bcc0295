"""Times the training loop's side of a DataLoader: construction, iterators, every ``next``."""

from __future__ import annotations

import sys
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns

from . import clocks, compilation, device_clock, wire
from .describe import loader_facts
from .grad_mode import await_forward
from .guard import quiet, replace
from .patch_fetch import close_fetch, open_fetch
from .patch_sampler import close_sampler, open_sampler
from .patch_training import listen, rest
from .profiler import end_window
from .pulse import state
from .stop import due, stop

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


class Account:
    """What we know of one iterator.

    ``rate`` = (backward passes, optimizer steps) of the step after the last close look, taken for the steps
    until the next one, ``countdown`` of them. ``seen`` = how many there had been at that look, ``left_ns`` =
    when its batch was there, ``spent_ns`` = what the look took of the loop's time after that.
    """

    __slots__ = (
        "arrivals", "countdown", "left_ns", "loader", "looked", "number", "rate", "seen", "spent_ns",
        "thread", "wait_ns",
    )  # fmt: skip

    def __init__(self, loader: int, number: int, thread: int) -> None:
        self.loader, self.number, self.thread = loader, number, thread
        self.arrivals = self.looked = self.wait_ns = self.countdown = self.left_ns = self.spent_ns = 0
        self.seen = self.rate = (0, 0)


def patch(module: Any) -> None:
    """``module`` is torch.utils.data.dataloader."""
    replace(module.DataLoader, "__init__", _construction)
    replace(module.DataLoader, "__iter__", _epoch)
    replace(module._BaseDataLoaderIter, "__init__", _iterator)
    replace(module._BaseDataLoaderIter, "__next__", _arrival)


_numbers = [0]


def number_of(loader: Any) -> int:
    """The loader's number in its process, given at first sight (unpickled loaders have none yet)."""
    number: int | None = loader.__dict__.get("_bdoc_number")
    if number is None:
        _numbers[0] += 1
        number = loader.__dict__["_bdoc_number"] = _numbers[0]
    return number


@quiet
def _describe(loader: Any, frame: FrameType, kwargs: dict[str, Any]) -> None:
    state.book.fact(
        fact="loader", thing=number_of(loader), at_ns=now(), **loader_facts(loader, frame, kwargs)
    )


def _construction(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if "_bdoc_number" not in self.__dict__:
            _describe(self, sys._getframe(1), kwargs)

    return __init__


def _iterator(original: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        state.iterators += 1
        self._bdoc = Account(number_of(loader), state.iterators, state.thread())
        open_sampler(self)
        original(self, loader, *args, **kwargs)

    return __init__


def _epoch(original: Callable[..., Any]) -> Callable[..., Any]:
    def __iter__(self: Any) -> Any:
        start = now()
        if self.__dict__.get("_iterator") is not None:  # persistent workers: the same iterator begins again
            open_sampler(self._iterator)
        iterator = original(self)
        _opened(self, iterator, start)
        return iterator

    return __iter__


@quiet
def _opened(loader: Any, iterator: Any, start: int) -> None:
    """An epoch begins: note how long building took and, for worker processes, who they are."""
    account = iterator.__dict__.get("_bdoc")
    if account is None:
        return
    close_sampler(iterator, account.loader, begins=True)
    if account.arrivals:
        state.iterators += 1
        account = iterator._bdoc = Account(account.loader, state.iterators, state.thread())
    device_clock.drop()
    taken = now() - start
    account.wait_ns += taken
    state.wait_ns += taken
    state.row(wire.EPOCH, start, taken, account.number, thing=account.loader, thread=account.thread)
    for place, worker in enumerate(getattr(iterator, "_workers", ())):
        state.row(wire.WORKERS, start, 0, worker.pid or 0, place, thing=account.loader)


def _arrival(original: Callable[..., Any]) -> Callable[..., Any]:
    def __next__(self: Any) -> Any:
        account: Account | None = self.__dict__.get("_bdoc")
        if account is None:
            return original(self)
        if account.countdown <= 0:
            return _closely(original, self, account)
        account.countdown -= 1
        ours = account.thread == state.trainer
        if ours:
            if not state.resting:
                _heard(account)
            elif account is state.pacer:
                _assume(account)
            if state.stop_at and due():
                stop()
        start = now()
        try:
            batch = original(self)
        except BaseException as ending:
            _ended(account, start, ending)
            raise
        taken = now() - start
        account.wait_ns += taken
        account.arrivals += 1
        if ours:
            state.wait_ns += taken
            state.arrivals += 1
        return batch

    return __next__


def _closely(original: Callable[..., Any], iterator: Any, account: Account) -> Any:
    """The same as the cheap path, with every clock read; costs about ten microseconds of CPU, and more time
    where cores are scarce: that time belongs to nobody's step."""
    entry = now()
    if state.window is not None:
        end_window(account.loader)
    account.thread = state.thread()  # an iterator may be built by one thread and asked by another
    ours = account.thread == state.trainer
    if ours:
        _settle(account)
    state.inside = account
    fetcher = open_fetch(iterator)
    open_sampler(iterator)
    cpu, process, queue = thread_time_ns(), process_time_ns(), clocks.run_queue()
    ready = _ready(iterator)
    if ours:
        device_clock.ask(account, account.loader)
    start = now()
    try:
        batch = original(iterator)
    except BaseException as ending:
        _ended(account, start, ending)
        raise
    finally:
        end, done, queued = now(), thread_time_ns(), clocks.run_queue() - queue
        device_clock.got()
        state.inside = None
        close_fetch(fetcher)
        close_sampler(iterator, account.loader, begins=not account.arrivals)
    taken = end - start
    account.wait_ns += taken
    account.arrivals += 1
    if ours:
        state.wait_ns += taken
        state.arrivals += 1
    _write(account, start, taken, (cpu, process, queue, ready, done - cpu, queued))
    if account.left_ns:
        spent = account.spent_ns + start - entry
        state.row(wire.LOOK, account.left_ns, spent, thing=account.loader, thread=account.thread)
    account.countdown = state.skip(account.arrivals) if state.window is None else 0
    account.left_ns, account.spent_ns = end, now() - end
    state.looked(start - entry + account.spent_ns, end, account.arrivals - account.looked)
    account.looked = account.arrivals
    if ours and account.arrivals == 1:
        await_forward(account)
    return batch


def _settle(account: Account) -> None:
    """Before a close look: count the step that ended here, and listen to the one that begins."""
    device_clock.end(account)
    if not state.resting:
        _count()
        if state.heard is account:
            _learn(account)
    elif account is state.pacer:
        _assume(account)
    account.seen = (state.backwards, state.optimizer_steps)
    state.heard = account
    listen()
    if state.stop_at and due():
        stop()


def _heard(account: Account) -> None:
    """A step ended while the hooks were on; if it was this iterator's, and it trained, they may rest."""
    entry = now()
    device_clock.end(account)
    _count()
    if state.heard is account:
        _learn(account)
        state.heard, state.close = None, False
        if account is state.pacer:
            rest()
            state.hooks_ns += now() - entry


def _count() -> None:
    if state.backwards != state.seen:
        state.seen = state.backwards
        state.trained += 1


def _learn(account: Account) -> None:
    """What one step did is taken for those until the next close look, by one iterator of those open."""
    backwards, steps = account.seen
    account.rate = (state.backwards - backwards, state.optimizer_steps - steps)
    if account.rate[0]:
        state.pacer = account
    elif state.pacer is account:
        state.pacer = None


def _assume(account: Account) -> None:
    """A step ended that nobody heard."""
    backwards, steps = account.rate
    state.backwards = state.seen = state.backwards + backwards
    state.optimizer_steps += steps
    state.trained += 1


@quiet
def _write(account: Account, start: int, taken: int, readings: tuple[int, int, int, int, int, int]) -> None:
    cpu, process, queue, ready, inside, queued = readings
    thread = state.thread()
    state.row(
        wire.NEXT, start, taken, account.arrivals, inside, account.wait_ns, state.backwards,
        state.optimizer_steps, account.loader, thread,
    )  # fmt: skip
    state.row(wire.LOOP, start, account.number, cpu, process, queue, ready, queued, account.loader, thread)
    if thread == state.trainer:
        _post(start + taken)


def _post(end: int) -> None:
    """Tell the board; a thread that prefetches for the loop stays silent here."""
    post = state.book.post
    if not state.last_ns:
        state.begun(end)
    state.last_ns = end
    compilation.note()
    device_clock.seek()
    post(wire.STEPS, state.arrivals)
    post(wire.TRAINED, state.trained)
    post(wire.WAIT, state.wait_ns)
    post(wire.LAST, end)
    if state.control is not None:
        state.control.look()


@quiet
def _ended(account: Account, start: int, ending: BaseException) -> None:
    how = 1 if isinstance(ending, StopIteration) else 2
    taken = now() - start
    account.wait_ns += taken
    state.wait_ns += taken
    state.row(
        wire.END, start, taken, account.number, how, account.wait_ns, account.arrivals, state.backwards,
        account.loader, account.thread,
    )  # fmt: skip
    state.book.post(wire.WAIT, state.wait_ns)
    if state.heard is account or state.pacer is account:  # what comes now may have no loader: be all ears
        state.heard = state.pacer = None
        listen()


def _ready(iterator: Any) -> int:
    """Batches that wait for the loop, or NOTHING: finished out of turn, or in the result queue."""
    queue = iterator.__dict__.get("_data_queue")
    if queue is None:
        return wire.NOTHING
    try:
        early = sum(len(task) == 2 for task in iterator._task_info.values())
        ready: int = early + queue.qsize()
        return ready
    except Exception:
        return wire.NOTHING
