"""Times one function of the user's as a source of batches: ``--data-fn module:function``."""

from __future__ import annotations

import os
import sys
from time import monotonic_ns as now
from time import process_time_ns, thread_time_ns

from . import clocks, wire
from .guard import quiet
from .pulse import pulse


class Marked:
    """The function to watch, and whether it is already wrapped."""

    module = ""
    name = ""
    done = True
    account = None


def mark(text):
    """Remember what to wrap; ``module:function``, where ``__main__`` is the script."""
    module, _, name = text.partition(":")
    Marked.module, Marked.name, Marked.done = module or "__main__", name, not name


@quiet
def look():
    """Wrap the function as soon as its module holds it; called when the training begins to move."""
    module = sys.modules.get(Marked.module)
    function = getattr(module, Marked.name, None) if module is not None else None
    if Marked.done or function is None:
        return
    Marked.done = True
    state = pulse()
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code else ("", 0)
    number = 1 << 16
    state.book.fact(
        fact="loader", thing=number, kind="function", dataset=Marked.name, file=os.path.abspath(file), line=line,
        function=Marked.name, num_workers=0,
    )  # fmt: skip
    from .patch_loader import Account

    state.iterators += 1
    Marked.account = Account(number, state.iterators, state.thread(), state.backwards)
    state.row(wire.EPOCH, now(), 0, Marked.account.number, thing=number, thread=state.thread())
    setattr(module, Marked.name, _timed(function))


def _timed(function):
    def fetch(*args, **kwargs):
        state, account = pulse(), Marked.account
        cpu, process, queue = thread_time_ns(), process_time_ns(), clocks.run_queue()
        if state.backwards != account.seen:
            account.seen = state.backwards
            state.trained += 1
        start = now()
        batch = function(*args, **kwargs)
        _note(state, account, start, (cpu, process, queue))
        return batch

    return fetch


@quiet
def _note(state, account, start, readings):
    from .patch_loader import _write

    taken = now() - start
    account.arrivals += 1
    account.wait_ns += taken
    state.arrivals += 1
    state.wait_ns += taken
    inside = thread_time_ns() - readings[0]
    _write(state, account, start, taken, (*readings, wire.NOTHING, inside))
