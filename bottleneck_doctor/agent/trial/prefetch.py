"""Treatments that make or copy the next batch during a step: by a thread, or on a stream of the device."""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque

from ..hints import Any, Callable, Done, Table
from ..state import state
from .hook_points import LOADER, together, wrap
from .loader import mapped, on_iterators

PATIENCE_S = 5.0  # for the thread's last batch, at exit
QUEUE, BATCH, STREAM = "_bdoc_queue", "_bdoc_batch", "_bdoc_stream"  # of an iterator


def ahead(options: dict[str, Any], done: Done) -> Table:
    """A loader without workers makes its next batches in a background thread of the training process, which
    ends with the iterator, or at the interpreter's exit. ``depth``: the batches that are ready at most."""
    depth = int(options["depth"])

    def _next_data(original: Callable[[Any], Any], self: Any) -> Any:
        queue = self.__dict__.get(QUEUE)
        return original(self) if queue is None else queue.take(self, original)

    def swap(iterator: Any, loader: Any) -> None:
        if not isinstance(iterator, sys.modules[LOADER]._SingleProcessDataLoaderIter):
            done("the loader has workers")
            return
        iterator.__dict__[QUEUE] = PrefetchQueue(depth)
        done()

    def patch(module: Any) -> None:
        wrap(module._SingleProcessDataLoaderIter, "_next_data", _next_data)

    return together({LOADER: patch}, on_iterators(options, swap, done))


class PrefetchQueue:
    """What the loop and the thread share. The thread asks the iterator for batches in their order and hands
    over whatever comes, an exception too, in its turn; it holds nothing while it waits."""

    def __init__(self, depth: int) -> None:
        self.room = threading.Semaphore(depth)
        self.ready = threading.Semaphore(0)
        self.batches: deque[tuple[Any, BaseException | None]] = deque()
        self.ended = False
        self.thread: threading.Thread | None = None

    def take(self, iterator: Any, make: Callable[[Any], Any]) -> Any:
        """The next batch, or the exception that came instead of it."""
        if self.thread is None:
            shared = self, weakref.ref(iterator), make
            self.thread = threading.Thread(target=_fill, args=shared, daemon=True)
            self.thread.start()
            weakref.finalize(iterator, self.end)
        self.ready.acquire()
        batch, problem = self.batches.popleft()
        if problem is not None:
            self.ready.release()  # who asks again after the end gets the same
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


def _fill(queue: PrefetchQueue, reference: weakref.ref[Any], make: Callable[[Any], Any]) -> None:
    problem: BaseException | None = None
    while problem is None:
        queue.room.acquire()
        iterator = None if queue.ended else reference()
        if iterator is None:
            return
        batch = None
        try:
            batch = make(iterator)
        except StopIteration:
            problem = StopIteration()  # without the frames that would keep the iterator
        except BaseException as raised:
            problem = raised
        iterator = None
        queue.batches.append((batch, problem))
        batch = None
        queue.ready.release()


def device_ahead(options: dict[str, Any], done: Done) -> Table:
    """No options: one batch is fetched and copied ahead, on a stream of its own, while the last one is used.

    Only loops that record gradients, once it is known which CUDA device they compute on: it need not be the
    current one. Batches are tensors, or lists, tuples and dicts of them. Not yet proven on hardware.
    """

    def __next__(original: Callable[..., Any], self: Any) -> Any:
        torch = sys.modules["torch"]
        used = state.accelerator
        if used is None or used.kind != "cuda" or not torch.is_grad_enabled():
            return original(self)
        kept, device = self.__dict__, "cuda:%d" % used.index
        if STREAM not in kept:
            kept[STREAM] = torch.cuda.Stream(device)
        now = kept.pop(BATCH, None) or _DeviceBatch(self, original, kept[STREAM], device)
        batch = now.given()
        done()
        kept[BATCH] = _DeviceBatch(self, original, kept[STREAM], device)
        return batch

    def _reset(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
        self.__dict__.pop(BATCH, None)  # an epoch that was left early
        return original(self, *args, **kwargs)

    def patch(module: Any) -> None:
        wrap(module._BaseDataLoaderIter, "__next__", __next__)
        wrap(module._BaseDataLoaderIter, "_reset", _reset)

    return {LOADER: patch}


class _DeviceBatch:
    """One that was fetched: its copy on the device, or how fetching it ended."""

    def __init__(self, iterator: Any, fetch: Callable[..., Any], side: Any, device: str) -> None:
        self.value: Any = None
        self.ending: BaseException | None = None
        self.side, self.device = side, device
        try:
            batch = fetch(iterator)
        except BaseException as ending:
            self.ending = ending
            return
        with sys.modules["torch"].cuda.stream(side):
            self.value = each_tensor(batch, self._copy)

    def given(self) -> Any:
        """The batch, once the copy that was begun is in front of what is computed from now on."""
        if self.ending is not None:
            raise self.ending
        current = sys.modules["torch"].cuda.current_stream(self.device)
        current.wait_stream(self.side)
        each_tensor(self.value, lambda one: one.record_stream(current) if one.is_cuda else None)
        return self.value

    def _copy(self, tensor: Any) -> Any:
        return tensor.to(self.device, non_blocking=tensor.is_cpu and tensor.is_pinned())


def each_tensor(batch: Any, act: Callable[[Any], Any]) -> Any:
    """The batch anew, with ``act`` on each tensor; what is no tensor stays."""
    tensor = sys.modules["torch"].Tensor
    return mapped(batch, lambda one: act(one) if isinstance(one, tensor) else one)


def nonblocking(options: dict[str, Any], done: Done) -> Table:
    """No options: copies of pinned tensors to CUDA: ``to`` and ``cuda`` do not wait for them.

    Never in the other direction, and never where the call says itself whether to wait. Not yet proven on
    hardware.
    """

    def patch(torch: Any) -> None:
        def move(original: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> Any:
            explicit = "non_blocking" in kwargs or any(type(one) is bool for one in args)
            to_device = original.__name__ == "cuda" or _is_cuda(torch, args, kwargs)
            if not explicit and self.is_cpu and to_device and self.is_pinned():
                kwargs["non_blocking"] = True
                done()
            return original(self, *args, **kwargs)

        for name in ("to", "cuda"):
            wrap(torch.Tensor, name, move)

    return {"torch": patch}


def _is_cuda(torch: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``Tensor.to`` is asked to go to a CUDA device."""
    aim = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    if isinstance(aim, torch.Tensor):
        aim = aim.device
    if isinstance(aim, int):
        return bool(torch.version.cuda)
    return str(aim).startswith("cuda")
