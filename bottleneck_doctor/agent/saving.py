"""Times what a loop writes: checkpoints, log records, progress bars, forced flushes."""

from __future__ import annotations

import os
import re
import stat
import sys
from threading import get_ident, local
from time import monotonic_ns as now
from time import thread_time_ns

from . import device_clock, wire
from .guard import put, quiet, replace_each
from .hints import Any, Callable, FrameType
from .state import state

CHECKPOINT, LOGGING, OTHER = "checkpoint", "logging", "flush"
ENDINGS = {
    CHECKPOINT: "pt pth ckpt safetensors bin pkl pickle pt2 model joblib msgpack onnx",
    LOGGING: "log txt csv tsv jsonl ndjson json yaml yml out err md html tfevents",
    OTHER: "db sqlite sqlite3 wal h5 hdf5 npy npz parquet arrow feather mdb tfrecord rec zarr dat raw mmap "
    "idx tar zip gz zst png jpg jpeg",
}
KINDS = {ending: kind for kind, endings in ENDINGS.items() for ending in endings.split()}
# Where the ending says nothing, the names of the file and its folder.
NAMES = (
    (CHECKPOINT, re.compile(r"ckpt|checkpoint|weights|snapshot")),
    (LOGGING, re.compile(r"(^|[^a-z])logs?([^a-z]|$)|tfevents|metrics?|history|events?\b")),
)
KEPT = 256  # files remembered; a training that names each checkpoint anew has more


class Written:
    """What was written by this process, as far as hooks have seen it."""

    def __init__(self) -> None:
        self.saved: dict[tuple[int, int], None] = {}  # (device, inode), which a rename leaves as they are

    def checkpoint(self, target: Any) -> None:
        """`torch.save` or one of its kind wrote there, a path or an open file: that file and its folder are
        remembered. A buffer in memory is neither."""
        if isinstance(target, (str, os.PathLike)):
            path = os.path.abspath(os.fspath(target))
        else:
            try:
                path = os.readlink("/proc/self/fd/%d" % target.fileno())
            except (AttributeError, OSError, ValueError):  # io.UnsupportedOperation is the last two
                return
        for one in (path, os.path.dirname(path)):
            key = _key(os.stat(one))
            self.saved.pop(key, None)
            self.saved[key] = None
        while len(self.saved) > KEPT:
            del self.saved[next(iter(self.saved))]

    def kind(self, target: Any) -> str:
        """What is forced to the disk: a descriptor, or what has a ``fileno``. What is neither is for the
        original to refuse."""
        return quiet(self._kind)(target) or OTHER

    def _kind(self, target: Any) -> str:
        number = target if isinstance(target, int) else target.fileno()
        found = os.fstat(number)
        if _key(found) in self.saved:
            return CHECKPOINT
        if stat.S_ISREG(found.st_mode):
            return named(os.readlink("/proc/self/fd/%d" % number))
        return OTHER if stat.S_ISDIR(found.st_mode) else LOGGING  # a terminal or a pipe


def named(path: str) -> str:
    """What a file is by its name; ``last.pt.tmp`` is what it will be."""
    folder, _, file = path.lower().rpartition("/")
    for ending in reversed(file.split(".")[1:]):
        if ending in KINDS:
            return KINDS[ending]
    for text in (file, folder.rpartition("/")[2]):
        for kind, pattern in NAMES:
            if pattern.search(text):
                return kind
    return OTHER


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


written = Written()
NOTED_NS = 20_000  # calls shorter than this are not worth a row


LOGS = {
    "logging": ("Handler.handle",),
    "tqdm.std": ("tqdm.display",),
    "tensorboard.summary.writer.event_file_writer": ("EventFileWriter.add_event", "EventFileWriter.flush"),
}
SAVES = {
    "torch.serialization": ("save",),
    "safetensors.torch": ("save_file",),
    # Lightning's cloud_io saves into memory, and writes that to the file afterwards.
    "lightning.fabric.utilities.cloud_io": ("_atomic_save",),
    "lightning_fabric.utilities.cloud_io": ("_atomic_save",),
}
FLUSHES = {"os": ("fsync", "fdatasync")}


def patch(module: Any) -> None:
    """Time what the tables name of this module."""
    torch: Any = sys.modules.get("torch")
    before = getattr(module, "save", None)
    for table, build in ((SAVES, _timed(CHECKPOINT)), (LOGS, _timed(LOGGING)), (FLUSHES, _flush)):
        replace_each(module, table.get(module.__name__, ()), build)
    if before is not None and getattr(torch, "save", None) is before:  # the same function by another name
        put(torch, "save", module.save, before)


_operation = local()  # ``inside`` while this thread is in one: what that calls belongs to it
_summed: dict[int, tuple[int, int, int]] = {}  # site -> calls, time and CPU that no row holds yet


def _timed(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if getattr(_operation, "inside", False):
                return original(*args, **kwargs)
            try:
                return _watched(kind, original, args, kwargs, sys._getframe().f_back)
            finally:
                if kind == CHECKPOINT:
                    _saved(args, kwargs)

        return operation

    return build


def _flush(original: Callable[..., Any]) -> Callable[..., Any]:
    """What is forced to the disk belongs to the file."""

    def operation(*args: Any, **kwargs: Any) -> Any:
        if getattr(_operation, "inside", False):  # an fsync inside a checkpoint belongs to the checkpoint
            return original(*args, **kwargs)
        kind = written.kind(args[0] if args else kwargs.get("fd"))
        return _watched(kind, original, args, kwargs, sys._getframe().f_back)

    return operation


def _watched(kind: str, original: Callable[..., Any], args: Any, kwargs: Any, frame: FrameType | None) -> Any:
    token = device_clock.begin() if state.look is not None and kind in wire.DEVICE_PARTS else None
    window = state.window  # read once: another thread may end it
    span = window.name(kind, frame) if window is not None and kind != OTHER else None
    start, cpu = now(), thread_time_ns()
    _operation.inside = True
    try:
        return original(*args, **kwargs)
    finally:
        _operation.inside = False
        if span is not None:
            span()
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
def _note(kind: str, start: int, cpu: int, frame: FrameType | None) -> None:
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
