"""Adds up the CPU time that decompression (gzip, zlib, bz2, lzma, zip, zstd) takes inside a fetch."""

from __future__ import annotations

from time import thread_time_ns

from .guard import replace_each
from .pulse import state

TYPE_CHECKING = False  # `typing` itself would cost each start of an interpreter milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# module -> where whole blocks come out, so that reading line by line costs nothing extra
UNPACKERS = {
    "zlib": ("decompress",),
    "bz2": ("decompress",),
    "lzma": ("decompress",),
    "gzip": ("_GzipReader.read", "decompress"),
    "_compression": ("DecompressReader.read",),
    "compression._common._streams": ("DecompressReader.read",),
    "zipfile": ("ZipExtFile._read1",),
    "lz4.frame": ("decompress",),
    "zstandard": ("decompress",),
}


def watchers() -> dict[str, Callable[[Any], None]]:
    """``{module: callback}`` for every way to unpack that we know."""
    return {module: _patcher(names) for module, names in UNPACKERS.items()}


def _patcher(names: tuple[str, ...]) -> Callable[[Any], None]:
    return lambda module: replace_each(module, names, _timed)


_depth = [0]


def _timed(original: Callable[..., Any]) -> Callable[..., Any]:
    def unpack(*args: Any, **kwargs: Any) -> Any:
        if not state.in_fetch or _depth[0]:
            return original(*args, **kwargs)
        _depth[0] = 1
        start = thread_time_ns()
        try:
            data = original(*args, **kwargs)
        finally:
            _depth[0] = 0
            state.unpack_ns += thread_time_ns() - start
        state.unpacked += len(data) if isinstance(data, bytes) else 0
        return data

    return unpack
