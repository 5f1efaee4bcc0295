"""Keeps decoded pictures and sounds in memory: what comes after decoding, augmentation, stays random.

For the decoders that agent/input_ops.py knows, called from Python with a path or with bytes; of Pillow,
pictures opened by path, in modes whose pixels are all there is. Before the first batch the workers decode
what the steps will use, so that these are steps after the first epoch. Options: ``where`` (whose workers do
that); ``bytes`` that may be kept.
"""

from __future__ import annotations

import os
import sys
from hashlib import blake2b

from ..hints import Any, Callable, Done, Table
from ..input_ops import DECODERS
from .apply import wrap
from .cache import CachedDataset, before
from .loader_match import on_iterators
from .sample_store import Store, room

KEYS_AT_MOST = 1 << 22
UNUSED = "nothing was decoded a second time by a decoder that is known"
PILLOW = "PIL.ImageFile"
COMPLETE = ("L", "RGB", "RGBA", "CMYK", "I", "F")  # Pillow's modes without a palette


class Decodings:
    """What was decoded, for all processes; there is room once a loader is iterated."""

    store: Store | None = None

    def __init__(self, done: Done) -> None:
        self.done = done

    def open(self, limit_bytes: int) -> None:
        """Make room; workers that are forked from now on share it."""
        if self.store is None:
            self.store = Store(KEYS_AT_MOST, limit_bytes)
            self.done(UNUSED)

    def get(self, key: int | None) -> Any:
        """What was decoded, in a tuple, or None."""
        found = self.store.get(key) if self.store is not None and key is not None else None
        if found is not None:
            self.done()
        return found

    def put(self, key: int | None, decoded: Any) -> None:
        """Keep it; what cannot be kept is decoded again."""
        try:
            if self.store is not None and key is not None and not self.store.put(key, decoded):
                self.done("not all that was decoded found room in memory")
        except Exception as problem:
            self.done("%s: %s" % (type(problem).__name__, problem))


def watchers(options: dict[str, Any], done: Done) -> Table:
    """The decoders, and torch's loader."""
    decodings = Decodings(done)

    def swap(iterator: Any, loader: Any) -> None:
        decodings.open(min(room(), int(options.get("bytes") or sys.maxsize)))
        dataset = iterator._dataset
        if not iterator._dataset_kind and getattr(dataset, "__getitems__", None) is None:
            iterator._dataset = CachedDataset(dataset, None, before(iterator, options, done), done)

    def patch(module: Any) -> None:
        for name in DECODERS[module.__name__]:
            if hasattr(module, name):
                wrap(module, name, lambda original: _call(original, decodings))

    def patch_pillow(module: Any) -> None:
        wrap(module.ImageFile, "load", lambda original: _picture(original, decodings))

    decoders = {name: patch for name, attributes in DECODERS.items() if "." not in attributes[0]}
    where = options.get("where")
    loader = {"torch.utils.data.dataloader": lambda module: on_iterators(module, where, swap, done)}
    return {**decoders, PILLOW: patch_pillow, **loader}


def _call(original: Callable[..., Any], decodings: Decodings) -> Callable[..., Any]:
    """A decoder that is a function of a path or of bytes."""

    def decode(*args: Any, **kwargs: Any) -> Any:
        key = _key(original.__qualname__, args, kwargs) if decodings.store is not None else None
        found = decodings.get(key)
        if found is not None:
            return found[0]
        decoded = original(*args, **kwargs)
        decodings.put(key, decoded)
        return decoded

    return decode


def _picture(original: Callable[..., Any], decodings: Decodings) -> Callable[..., Any]:
    """Pillow's ``ImageFile.load``, which decodes the file that was opened before."""

    def load(self: Any) -> Any:
        if decodings.store is None or not self.tile or self.mode not in COMPLETE:
            return original(self)
        asked = (self.size, self.mode, self.tile)
        key = _key("load", (self.filename,), {"asked": asked}) if self.filename else None
        found = decodings.get(key)
        if found is not None:
            self.load_prepare()
            _fill(self, found[0])
            return original(self)  # with no tile left to decode
        result = original(self)
        if key is not None and (self.size, self.mode) == asked[:2]:
            decodings.put(key, self.tobytes())
        return result

    return load


def _fill(picture: Any, pixels: bytes) -> None:
    """The decoded pixels, and the file closed, as decoding leaves it."""
    picture.tile = []
    picture.frombytes(pixels)
    if picture._exclusive_fp and picture._close_exclusive_fp_after_loading:
        picture.fp.close()
    picture.fp = None


def _key(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """A number for a call; None where what it decodes is not known from its arguments."""
    digest = blake2b(name.encode(), digest_size=7)
    for one in (*args, *(part for item in sorted(kwargs.items()) for part in item)):
        kind = type(one)
        if isinstance(one, (str, os.PathLike)) and os.path.isfile(one):
            seen = os.stat(one)
            digest.update(b"%d %d" % (seen.st_size, seen.st_mtime_ns) + os.fsencode(os.path.abspath(one)))
        elif isinstance(one, bytes):
            digest.update(one)
        elif hasattr(one, "__array__") and getattr(one, "ndim", 0) == 1:
            digest.update(memoryview(one.numpy() if hasattr(one, "numpy") else one).cast("B"))
        elif one is None or isinstance(one, (bool, int, float, str, tuple, list)) or hasattr(kind, "name"):
            digest.update(repr(one).encode())
        else:
            return None
    return int.from_bytes(digest.digest(), "big")
