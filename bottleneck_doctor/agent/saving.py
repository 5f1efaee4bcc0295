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
        remembered. A buffer in memory raises."""
        if isinstance(target, (str, os.PathLike)):
            path = os.path.abspath(os.fspath(target))
        else:
            path = os.readlink("/proc/self/fd/%d" % target.fileno())
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


# Of which module which functions; what is forced to the disk belongs to the file.
TIMED = {
    "logging": (LOGGING, "Handler.handle"),
    "tqdm.std": (LOGGING, "tqdm.display"),
    "tensorboard.summary.writer.event_file_writer": (
        LOGGING, "EventFileWriter.add_event", "EventFileWriter.flush",
    ),
    "torch.serialization": (CHECKPOINT, "save"),
    "safetensors.torch": (CHECKPOINT, "save_file"),
    # Lightning's cloud_io saves into memory, and writes that to the file afterwards.
    "lightning.fabric.utilities.cloud_io": (CHECKPOINT, "_atomic_save"),
    "lightning_fabric.utilities.cloud_io": (CHECKPOINT, "_atomic_save"),
    "os": ("", "fsync", "fdatasync"),
}  # fmt: skip


def patch(module: Any) -> None:
    """Time what the table names of this module."""
    torch: Any = sys.modules.get("torch")
    before = getattr(module, "save", None)
    kind, *names = TIMED[module.__name__]
    replace_each(module, tuple(names), _timed(kind))
    if before is not None and getattr(torch, "save", None) is before:  # the same function by another name
        put(torch, "save", module.save, before)


_operation = local()  # ``inside`` while this thread is in one: what that calls belongs to it
_summed: dict[int, tuple[int, int, int]] = {}  # site -> calls, time and CPU that no row holds yet


def _timed(kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def build(original: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if getattr(_operation, "inside", False):  # an fsync inside a checkpoint belongs to the checkpoint
                return original(*args, **kwargs)
            what = kind or written.kind(args[0] if args else kwargs.get("fd"))
            ends = _begins(what, sys._getframe().f_back)
            try:
                return original(*args, **kwargs)
            finally:
                ends()
                if kind == CHECKPOINT:  # ``save(thing, target)``, whatever the target is called
                    target = args[1] if len(args) > 1 else kwargs.get("f", kwargs.get("filename"))
                    quiet(written.checkpoint)(target)

        return operation

    return build


def _begins(kind: str, frame: FrameType | None) -> Callable[[], None]:
    """What is given back notes the end: a handler of logs that searches the stack for the line that logs, as
    loguru's recipe does, must find no frame of the agent's but the wrapper's."""
    token = device_clock.begin() if state.look is not None and kind in wire.DEVICE_PARTS else None
    window = state.window  # read once: another thread may end it
    span = window.name(kind, frame) if window is not None and kind != OTHER else None
    start, cpu = now(), thread_time_ns()
    _operation.inside = True

    def ends() -> None:
        _operation.inside = False
        if span is not None:
            span()
        if token is not None:
            device_clock.part(token, wire.DEVICE_PARTS.index(kind))
        _note(kind, start, cpu, frame)

    return ends


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
