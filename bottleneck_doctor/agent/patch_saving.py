"""Times what a loop writes: checkpoints, log records, progress bars, forced flushes."""

from __future__ import annotations

import sys
from time import monotonic_ns as now
from time import thread_time_ns

from . import wire
from .guard import quiet, replace
from .pulse import state

NOTED_NS = 20_000  # calls shorter than this are not worth a row


def patch_save(module):
    """``module`` is torch.serialization; ``torch.save`` is the same function under another name."""
    before = module.save
    replace(module, "save", _timed("checkpoint"))
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch, "save", None) is before:
        torch.save = module.save


def patch_torch(module):
    """``module`` is torch, complete."""
    serialization = sys.modules.get("torch.serialization")
    if serialization is not None:
        module.save = serialization.save


def patch_logging(module):
    """``module`` is logging."""
    replace(module.Handler, "handle", _timed("logging"))


def patch_os(module):
    """``module`` is os."""
    replace(module, "fsync", _timed("logging"))


def patch_tqdm(module):
    """``module`` is tqdm.std."""
    replace(module.tqdm, "display", _timed("logging"))


def patch_event_writer(module):
    """``module`` is tensorboard.summary.writer.event_file_writer."""
    replace(module.EventFileWriter, "add_event", _timed("logging"))
    replace(module.EventFileWriter, "flush", _timed("logging"))


def patch_safetensors(module):
    """``module`` is safetensors.torch."""
    replace(module, "save_file", _timed("checkpoint"))


_depth = [0]


def _timed(kind):
    index = wire.OPERATIONS.index(kind)

    def build(original):
        def operation(*args, **kwargs):
            if _depth[0]:  # an fsync inside a checkpoint belongs to the checkpoint
                return original(*args, **kwargs)
            _depth[0] = 1
            start, cpu = now(), thread_time_ns()
            try:
                return original(*args, **kwargs)
            finally:
                _depth[0] = 0
                _note(kind, index, start, cpu, sys._getframe(1))

        return operation

    return build


@quiet
def _note(kind, index, start, cpu, frame):
    taken = now() - start
    if taken < NOTED_NS:
        return
    if state.in_fetch:
        return
    site = state.site(kind, frame)
    state.row(wire.OPERATION, start, taken, thread_time_ns() - cpu, 0, index, thing=site, thread=state.thread())
