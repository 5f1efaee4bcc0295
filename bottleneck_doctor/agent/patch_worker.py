"""Makes a loader's worker process known, and watches what it serialises and opens."""

from __future__ import annotations

import sys
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .guard import quiet, replace
from .pulse import state

FILES_AT_MOST = 64  # names per process that are written down


def patch(module):
    """``module`` is torch.utils.data._utils.worker."""
    replace(module, "_worker_loop", _life)


def _life(original):
    def _worker_loop(*args, **kwargs):
        _born(args)
        return original(*args, **kwargs)

    return _worker_loop


@quiet
def _born(args):
    import os
    from multiprocessing.reduction import ForkingPickler

    state.worker = True
    number, of, seed = args[10], args[11], args[8]
    state.book.fact(fact="worker", worker=number, workers=of, seed=seed, parent=os.getppid())
    original = ForkingPickler.__dict__["dumps"].__func__
    ForkingPickler.dumps = classmethod(_timed(original))
    watch_opens()


def _timed(original):
    """Runs in the queue's feeder thread, the only place where a batch is really serialised."""

    def dumps(cls, obj, protocol=None):
        start, cpu = now(), thread_time_ns()
        data = original(cls, obj, protocol)
        _pickled(start, cpu, len(data))
        return data

    return dumps


@quiet
def _pickled(start, cpu, size):
    state.row(wire.PICKLE, start, now() - start, thread_time_ns() - cpu, size, thread=state.thread())


_watching = []


def watch_opens():
    """Count files opened during fetches. An audit hook is invisible to the user's tracebacks."""
    if _watching:
        return
    _watching.append(True)
    seen = set()

    def hook(event, args):
        if event != "open":
            return
        try:
            if state.in_fetch and isinstance(args[0], str) and not args[0].startswith(state.folder):
                state.opens += 1
                if len(seen) < FILES_AT_MOST and args[0] not in seen:
                    seen.add(args[0])
                    state.book.fact(fact="file", path=args[0], thing=state.inside.loader if state.inside else 0)
        except BaseException:
            pass

    sys.addaudithook(hook)
