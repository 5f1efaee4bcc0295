"""A number by which a batch is known again: of the bytes in its tensors, arrays, texts and numbers."""

from __future__ import annotations

import sys
from itertools import islice
from zlib import crc32

from ..fetch import leaves
from ..hints import Any, Iterator

LEAVES_AT_MOST = 1024
WHOLE_BYTES = 8 << 20  # of a larger part, only stretches: a checksum runs at a gigabyte a second or two
STRETCH_BYTES = 64 << 10
STRETCHES = 64


def checksum(batch: Any) -> int:
    """The same for the same contents, in this process and in any other; 0 where nothing could be read.

    The lower 32 bits are of everything, the 20 above of whole numbers alone, as labels are: so that samples
    which come with other random numbers in them are still known.
    """
    total = whole = 0
    for leaf in islice(leaves(_opened(batch)), LEAVES_AT_MOST):
        for part in _bytes(leaf):
            total = crc32(part, total)
            whole = crc32(part, whole) if _is_whole(leaf) else whole
    return (whole & 0xFFFFF) << 32 | total


def _is_whole(leaf: Any) -> bool:
    """Whether it is made of integers. A single Python number is not counted as one: it may be a position."""
    return str(getattr(leaf, "dtype", "")).removeprefix("torch.").startswith(("int", "uint"))


def _opened(batch: Any) -> Any:
    """What a batch of a library's own class keeps its parts in: transformers' BatchEncoding, dataclasses."""
    if isinstance(batch, (dict, list, tuple)) or hasattr(batch, "untyped_storage"):
        return batch
    inner = getattr(batch, "data", None)
    if isinstance(inner, dict):
        return inner
    own = getattr(batch, "__dict__", None)
    return own if isinstance(own, dict) else batch


def _bytes(leaf: Any) -> Iterator[Any]:
    if isinstance(leaf, (bytes, bytearray)):
        yield leaf
    elif isinstance(leaf, (str, int, float, bool, complex)):
        yield repr(leaf).encode("utf-8", "replace")
    elif hasattr(leaf, "untyped_storage"):
        if leaf.device.type == "cpu" and leaf.numel() and str(leaf.layout) == "torch.strided":
            yield from _stretches(_as_bytes(leaf.detach()))
    elif hasattr(leaf, "__array_interface__") and getattr(leaf, "size", False):
        whole = leaf if leaf.flags.c_contiguous else leaf.copy(order="C")
        yield from _stretches(memoryview(whole.reshape(-1).view("uint8")))


def _as_bytes(tensor: Any) -> memoryview:
    """Through numpy, as bytes: it knows no bfloat16."""
    torch: Any = sys.modules["torch"]
    return memoryview(tensor.resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy())


def _stretches(whole: memoryview) -> Iterator[memoryview]:
    if whole.nbytes <= WHOLE_BYTES:
        yield whole
        return
    for place in range(STRETCHES):
        start = (whole.nbytes - STRETCH_BYTES) * place // (STRETCHES - 1)
        yield whole[start : start + STRETCH_BYTES]
