"""Makes a loader's worker process known, and watches what it serialises and opens and how long it ends."""

from __future__ import annotations

import sys
from threading import get_ident
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .fetch import patch_worker, watch_opens
from .guard import quiet, replace
from .hints import Any, Callable
from .state import state

STOP_NS = 1_000_000  # what takes less is not worth a row


def patch(module: Any) -> None:
    """``module`` is torch.utils.data._utils.worker, or torchdata's: the same arguments and more."""
    replace(module, "_worker_loop", _life)


def stops(original: Callable[..., Any]) -> Callable[..., Any]:
    """Times how long an iterator takes to end its workers."""
    clock, note = now, _stopped  # an iterator may be freed when this module's names are gone

    def _shutdown_workers(self: Any) -> None:
        start = clock()
        try:
            original(self)
        finally:
            note(self, start)

    return _shutdown_workers


@quiet
def _stopped(iterator: Any, start: int) -> None:
    taken = now() - start
    if taken >= STOP_NS:
        account = iterator.__dict__.get("_bdoc")
        thing = account.loader if account is not None else 0
        state.row(wire.STOPPED_WORKERS, start, taken, thing=thing, thread=state.thread())


def _life(original: Callable[..., Any]) -> Callable[..., Any]:
    def _worker_loop(*args: Any, **kwargs: Any) -> Any:
        _born(args)
        return original(*args, **kwargs)

    return _worker_loop


@quiet
def _born(args: tuple[Any, ...]) -> None:
    from multiprocessing import reduction

    pickler: Any = reduction.ForkingPickler
    state.worker = True
    state.writer.fact(fact="worker", worker=args[10])
    original = pickler.__dict__["dumps"].__func__
    pickler.dumps = classmethod(_timed(original))
    fetch = sys.modules.get("torch.utils.data._utils.fetch")
    if fetch is not None:
        patch_worker(fetch)
    watch_opens()


def _timed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Runs in the queue's feeder thread, the only place where a batch is really serialised."""

    def dumps(cls: Any, obj: Any, protocol: int | None = None) -> Any:
        state.feeder = get_ident()
        start, cpu = now(), thread_time_ns()
        data = original(cls, obj, protocol)
        _pickled(start, cpu, len(data))
        return data

    return dumps


_batches = [0]


@quiet
def _pickled(start: int, cpu: int, size: int) -> None:
    _batches[0] += 1
    if _batches[0] % state.floor:
        return
    state.row(wire.PICKLE, start, now() - start, thread_time_ns() - cpu, size, thread=state.thread())
