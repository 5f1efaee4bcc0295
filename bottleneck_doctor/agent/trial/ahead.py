"""Lets a loader without workers make its next batches in a background thread of the training process.

The thread asks the iterator for batches in their order and hands over whatever comes, an exception too, in
its turn. It holds nothing while it waits, and ends with the iterator, or at the interpreter's exit. Options:
``where``; ``depth``, the batches that are ready at most.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque

from ..hints import Any, Callable, Done, Table
from .apply import wrap
from .loader_match import on_iterators

DEPTH = 4
PATIENCE_S = 5.0  # for the thread's last batch, at exit
AHEAD = "_bdoc_ahead"


class PrefetchQueue:
    """What the loop and the thread share."""

    def __init__(self, depth: int, make: Callable[[Any], Any]) -> None:
        self.room = threading.Semaphore(depth)
        self.ready = threading.Semaphore(0)
        self.batches: deque[tuple[Any, BaseException | None]] = deque()
        self.make = make
        self.ended = False
        self.thread: threading.Thread | None = None

    def take(self, iterator: Any) -> Any:
        """The next batch, or the exception that came instead of it."""
        if self.thread is None:
            self.thread = threading.Thread(target=_fill, args=(self, weakref.ref(iterator)), daemon=True)
            self.thread.start()
            weakref.finalize(iterator, self.end)
        self.ready.acquire()
        batch, problem = self.batches.popleft()
        if problem is not None:
            self.ready.release()  # whoever asks again after the end is told the same
            self.batches.append((batch, problem))
            raise problem
        self.room.release()
        return batch

    def end(self) -> None:
        """Let the thread go; it is asked to between two batches."""
        self.ended = True
        self.room.release()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(PATIENCE_S)


def _fill(shared: PrefetchQueue, reference: weakref.ref[Any]) -> None:
    problem: BaseException | None = None
    while problem is None:
        shared.room.acquire()
        iterator = None if shared.ended else reference()
        if iterator is None:
            return
        batch = None
        try:
            batch = shared.make(iterator)
        except StopIteration:
            problem = StopIteration()  # without the frames that would keep the iterator
        except BaseException as raised:
            problem = raised
        iterator = None
        shared.batches.append((batch, problem))
        batch = None
        shared.ready.release()


def watchers(options: dict[str, Any], done: Done) -> Table:
    """Once torch's loader is there."""
    depth = int(options.get("depth", DEPTH))

    def patch(module: Any) -> None:
        kind = module._SingleProcessDataLoaderIter

        def build(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def _next_data(self: Any) -> Any:
                shared = self.__dict__.get(AHEAD)
                return original(self) if shared is None else shared.take(self)

            return _next_data

        def swap(iterator: Any, loader: Any) -> None:
            if not isinstance(iterator, kind):
                done("the loader has workers")
                return
            iterator.__dict__[AHEAD] = PrefetchQueue(depth, made)
            done()

        made = kind._next_data
        wrap(kind, "_next_data", build)
        on_iterators(module, options.get("where"), swap, done)

    return {"torch.utils.data.dataloader": patch}
