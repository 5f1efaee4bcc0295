"""Times what a loop writes: checkpoints, log records, progress bars, forced flushes."""

from __future__ import annotations

import sys
from threading import get_ident
from time import monotonic_ns as now
from time import thread_time_ns

from . import device_clock, wire
from .guard import quiet, replace
from .pulse import state
from .synced import OTHER, written
from .types import Any, Callable, FrameType

NOTED_NS = 20_000  # calls shorter than this are not worth a row


def patch_save(module: Any) -> None:
    """``module`` is torch.serialization; ``torch.save`` is the same function under another name."""
    before = module.save
    replace(module, "save", _timed("checkpoint"))
    torch: Any = sys.modules.get("torch")
    if torch is not None and getattr(torch, "save", None) is before:
        torch.save = module.save


def patch_torch(module: Any) -> None:
    """``module`` is torch, complete."""
    serialization: Any = sys.modules.get("torch.serialization")
    if serialization is not None:
        module.save = serialization.save


def patch_logging(module: Any) -> None:
    """``module`` is logging."""
    replace(module.Handler, "handle", _timed("logging"))


def patch_os(module: Any) -> None:
    """``module`` is os."""
    for name in ("fsync", "fdatasync"):
        replace(module, name, _synced)
        getattr(module, name).__module__ = module.__name__  # posix has the original: it would not pickle


def patch_tqdm(module: Any) -> None:
    """``module`` is tqdm.std."""
    replace(module.tqdm, "display", _timed("logging"))


def patch_event_writer(module: Any) -> None:
    """``module`` is tensorboard.summary.writer.event_file_writer."""
    replace(module.EventFileWriter, "add_event", _timed("logging"))
    replace(module.EventFileWriter, "flush", _timed("logging"))


def patch_safetensors(module: Any) -> None:
    """``module`` is safetensors.torch."""
    replace(module, "save_file", _timed("checkpoint"))


def patch_lightning(module: Any) -> None:
    """``module`` is Lightning's cloud_io: it saves into memory, and writes that to the file afterwards."""
    replace(module, "_atomic_save", _timed("checkpoint"))


_depth = [0]
_summed: dict[int, tuple[int, int, int]] = {}  # site -> calls, time and CPU that no row holds yet


def _timed(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if _depth[0]:  # an fsync inside a checkpoint belongs to the checkpoint
                return original(*args, **kwargs)
            try:
                return _watched(kind, original, args, kwargs, sys._getframe(1))
            finally:
                if kind == "checkpoint":
                    _saved(args, kwargs)

        return operation

    return build


def _synced(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is forced to the disk belongs to the file."""

    def operation(*args: Any, **kwargs: Any) -> Any:
        if _depth[0]:
            return original(*args, **kwargs)
        kind = written.kind(args[0] if args else kwargs.get("fd"))
        return _watched(kind, original, args, kwargs, sys._getframe(1))

    return operation


def _watched(kind: str, original: Callable[..., Any], args: Any, kwargs: Any, frame: FrameType) -> Any:
    _depth[0] = 1
    token = device_clock.begin() if state.look is not None and kind in wire.DEVICE_PARTS else None
    span = state.window.name(kind, frame) if state.window is not None and kind != OTHER else None
    start, cpu = now(), thread_time_ns()
    try:
        return original(*args, **kwargs)
    finally:
        _depth[0] = 0
        if span is not None:
            span.end()
        if token is not None:
            device_clock.part(token, wire.DEVICE_PARTS.index(kind))
        _note(kind, start, cpu, frame)


@quiet
def _saved(args: Any, kwargs: Any) -> None:
    """``save(thing, target)``, whatever the target is called."""
    target = args[1] if len(args) > 1 else kwargs.get("f", kwargs.get("filename"))
    if target is not None:
        written.checkpoint(target)


@quiet
def _note(kind: str, start: int, cpu: int, frame: FrameType) -> None:
    taken = now() - start
    if taken < NOTED_NS:
        return
    if state.in_fetch == get_ident():
        return
    site = state.site(kind, frame)
    calls, before, spent = _summed.pop(site, (0, 0, 0))
    calls, taken, spent = calls + 1, before + taken, spent + thread_time_ns() - cpu
    if calls < state.floor:  # a long run: several calls share a row, and nothing is lost but their instants
        _summed[site] = (calls, taken, spent)
        return
    state.row(
        wire.OPERATION, start, taken, spent, 0, wire.OPERATIONS.index(kind), calls, thing=site,
        thread=state.thread(),
    )  # fmt: skip
