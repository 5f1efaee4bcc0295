"""Times what a loop writes: checkpoints, log records, progress bars, forced flushes."""

from __future__ import annotations

import os
import re
import stat
import sys
from threading import get_ident
from time import monotonic_ns as now
from time import thread_time_ns

from . import device_clock, wire
from .guard import put, quiet, replace
from .hints import Any, Callable, FrameType
from .state import state

CHECKPOINT, LOGGING, OTHER = "checkpoint", "logging", "flush"
GROWS = -1
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
KEPT = 256  # files remembered of each kind; a training that names each checkpoint anew has more


class Written:
    """What was written by this process, as far as hooks have seen it."""

    def __init__(self) -> None:
        # By device and inode, which a rename leaves as they are.
        self.saved: dict[Any, int] = {}  # files and folders of checkpoints
        self.sizes: dict[Any, int] = {}  # of files of unknown kind, at the last flush
        self.last = OTHER

    def checkpoint(self, target: Any) -> None:
        """`torch.save` or one of its kind wrote there; ``target`` is a path, an open file or a buffer."""
        self.last = CHECKPOINT
        path, found = _place(target)
        if found is not None:
            _remember(self.saved, _key(found), 1)
        if path:
            _remember(self.saved, _key(os.stat(os.path.dirname(path) or ".")), 1)

    def kind(self, target: Any) -> str:
        """What is forced to the disk: a descriptor, or what has a ``fileno``. What is neither is for the
        original to refuse."""
        return quiet(self._kind)(target) or OTHER

    def _kind(self, target: Any) -> str:
        number = target if isinstance(target, int) else target.fileno()
        found = os.fstat(number)
        if stat.S_ISDIR(found.st_mode):  # makes the last rename in it durable
            return CHECKPOINT if _key(found) in self.saved else self.last
        self.last = self._of_file(number, found)
        return self.last

    def _of_file(self, number: int, found: os.stat_result) -> str:
        key = _key(found)
        if key in self.saved:
            return CHECKPOINT
        if not stat.S_ISREG(found.st_mode):
            return LOGGING  # a terminal or a pipe
        path = os.readlink("/proc/self/fd/%d" % number)
        known = named(path)
        if known:
            return known
        if self.last == CHECKPOINT and key not in self.sizes:
            return CHECKPOINT  # written from a buffer that `torch.save` has just filled
        before = self.sizes.get(key, found.st_size)
        grows = before == GROWS or found.st_size > before
        _remember(self.sizes, key, GROWS if grows else found.st_size)
        return LOGGING if grows else OTHER  # what is kept open and grows is a record of the run


def named(path: str) -> str:
    """What a file is by its name, "" where that says nothing; ``last.pt.tmp`` is what it will be."""
    folder, _, file = path.lower().rpartition("/")
    for ending in reversed(file.split(".")[1:]):
        if ending in KINDS:
            return KINDS[ending]
    for text in (file, folder.rpartition("/")[2]):
        for kind, pattern in NAMES:
            if pattern.search(text):
                return kind
    return ""


def _place(target: Any) -> tuple[str, os.stat_result | None]:
    """The path and the inode of what was written; neither for a buffer in memory."""
    if isinstance(target, (str, os.PathLike)):
        path = os.path.abspath(os.fspath(target))
        return path, os.stat(path)
    try:
        number = target.fileno()
    except (AttributeError, OSError, ValueError):  # io.UnsupportedOperation is the last two
        return "", None
    return os.readlink("/proc/self/fd/%d" % number), os.fstat(number)


def _key(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _remember(known: dict[Any, int], key: tuple[int, int], value: int) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > KEPT:
        del known[next(iter(known))]


written = Written()


NOTED_NS = 20_000  # calls shorter than this are not worth a row


def patch_save(module: Any) -> None:
    """``module`` is torch.serialization; ``torch.save`` is the same function under another name."""
    before = module.save
    replace(module, "save", _timed("checkpoint"))
    torch: Any = sys.modules.get("torch")
    if torch is not None and getattr(torch, "save", None) is before:
        put(torch, "save", module.save, before)


def patch_torch(module: Any) -> None:
    """``module`` is torch, complete."""
    serialization: Any = sys.modules.get("torch.serialization")
    if serialization is not None and module.save is not serialization.save:
        put(module, "save", serialization.save, module.save)


def patch_logging(module: Any) -> None:
    """``module`` is logging."""
    replace(module.Handler, "handle", _timed("logging"))


def patch_os(module: Any) -> None:
    """``module`` is os."""
    for name in ("fsync", "fdatasync"):
        replace(module, name, _synced)


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
                return _watched(kind, original, args, kwargs, sys._getframe().f_back)
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
        return _watched(kind, original, args, kwargs, sys._getframe().f_back)

    return operation


def _watched(kind: str, original: Callable[..., Any], args: Any, kwargs: Any, frame: FrameType | None) -> Any:
    _depth[0] = 1
    token = device_clock.begin() if state.look is not None and kind in wire.DEVICE_PARTS else None
    window = state.window  # read once: another thread may end it
    span = window.name(kind, frame) if window is not None and kind != OTHER else None
    start, cpu = now(), thread_time_ns()
    try:
        return original(*args, **kwargs)
    finally:
        _depth[0] = 0
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
