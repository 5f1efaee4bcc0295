"""Chooses what is worth timing: the loader that costs most, its files, its reads and its batches."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import PurePosixPath
from statistics import fmean
from typing import Any

from ..model.fetches import FetchTable, HotFiles, Payload
from ..model.loops import Loader
from ..model.profile import Profile

NO_DATA = frozenset((".py", ".pyc", ".so", ".pth", ".toml", ".cfg"))  # opened by imports inside a fetch
NO_DISK = ("/proc/", "/sys/", "/dev/")
PICTURES = frozenset((".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"))
COLD_BYTES = 4096  # per batch from storage, below which nothing was read to speak of
WHOLE_OPENS = 0.9  # opens per sample from which samples are files of their own [findings/small_files.py]
WHOLE_BYTES = 256 << 10  # a larger file costs what its bytes cost, not what opening it costs (ours)
DEPTHS = (1, 2, 4, 8)
TENSORS = 32  # per batch, or bytes through the pipe: less is moved for next to nothing [catalogue F12]
PIPE_BYTES = 1e6
WORKERS_AT_MOST = 4  # of the probe's own loader
# the module whose decoder ran -> what the probe calls it
DECODERS = {
    "PIL.ImageFile": "PIL", "cv2": "OpenCV", "simplejpeg": "simplejpeg", "turbojpeg": "TurboJPEG",
    "torchvision.io.image": "torchvision",
}  # fmt: skip

CHANNELS = 3

Request = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """A loader and what its fetches did; means per batch."""

    loader: Loader
    table: FetchTable
    hot: HotFiles | None
    payload: Payload | None

    def mean(self, column: str) -> float:
        """Mean of a column of the fetch table over the batches in which it was measured."""
        known = [value for value in getattr(self.table, column) if value is not None]
        return fmean(known) if known else 0.0


def choose(profile: Profile) -> Subject | None:
    """The loader whose batches cost most time to make."""
    tables = [table for table in profile.fetches if table.t]
    if not tables:
        return None
    table = max(tables, key=lambda one: fmean(one.wall_s) * one.seen)
    loader = next((one for one in profile.loaders if one.key == table.loader), None)
    if loader is None:
        return None
    hot = next((one for one in profile.hot_files if one.loader == loader.key), None)
    payload = next((one for one in profile.payloads if one.loader == loader.key), None)
    return Subject(loader, table, hot, payload)


def files_of(subject: Subject, cwd: str, is_remote: Callable[[str], bool]) -> list[str]:
    """Plain local files that its fetches opened. Servers are never asked for anything."""
    named = subject.hot.paths if subject.hot is not None else []
    paths = [os.path.join(cwd, path) for path in named]
    return [path for path in paths if _is_data(path) and not is_remote(path) and _is_plain(path)]


def _is_data(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() not in NO_DATA and not path.startswith(NO_DISK)


def _is_plain(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def reads_request(subject: Subject, paths: list[str], folder: str) -> Request | None:
    """Which reads to time; ``None`` where fetches read nothing from storage."""
    opens, samples = subject.mean("opens"), max(1.0, subject.mean("samples"))
    calls, delivered = subject.mean("reads"), subject.mean("read_bytes")
    if not paths or not calls or subject.mean("storage_bytes") < COLD_BYTES:
        return None
    sizes = [os.path.getsize(path) for path in paths]
    whole = opens >= WHOLE_OPENS * samples and fmean(sizes) <= WHOLE_BYTES
    now = min(DEPTHS[-1], max(1, subject.loader.num_workers))
    return {
        "paths": paths, "whole": whole, "direct": bool(subject.hot and subject.hot.direct), "now": now,
        "size": round(delivered / calls), "depths": sorted({*DEPTHS, now}),
        "chunk": round(samples * fmean(sizes)), "folder": folder,
    }  # fmt: skip


def pictures_request(subject: Subject, paths: list[str]) -> Request | None:
    """Pictures to decode; ``None`` where no decoder that we know took time."""
    pictures = [path for path in paths if PurePosixPath(path).suffix.lower() in PICTURES]
    used = [DECODERS[name] for name in (subject.hot.decoders if subject.hot else []) if name in DECODERS]
    if not pictures or not used or not subject.mean("decode_s"):
        return None
    return {"paths": pictures, "used": used[0], "side": _side(subject)}


def _side(subject: Subject) -> int:
    """Pixels along a finished sample, three elements each; 0 where not known."""
    payload, samples = subject.payload, subject.mean("samples")
    if payload is None or not samples:
        return 0
    return round(sqrt(payload.tensor_bytes / samples / CHANNELS / max(1.0, payload.element_bytes)))


def moving_request(subject: Subject) -> Request | None:
    """The batch to move; ``None`` where moving it is cheap, or nobody moves it."""
    payload = subject.payload
    if payload is None or not subject.loader.num_workers:
        return None
    if payload.tensors <= TENSORS and payload.pipe_bytes <= PIPE_BYTES:
        return None
    return {
        "tensors": payload.tensors, "tensor_bytes": payload.tensor_bytes, "other_bytes": payload.other_bytes,
        "workers": min(WORKERS_AT_MOST, subject.loader.num_workers),
    }  # fmt: skip
