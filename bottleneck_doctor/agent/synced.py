"""Says what a file is that is forced to the disk: a checkpoint, a log, or some other file.

The kernel's name of the open descriptor decides, and what `torch.save` was seen to write: looked up beside a
flush to the disk, which takes a hundred times as long. A file is never opened here: closing it again would
drop the locks that the script holds on it.
"""

from __future__ import annotations

import os
import re
import stat

from .types import Any

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
        try:
            return self._kind(target)
        except Exception:
            return OTHER

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
