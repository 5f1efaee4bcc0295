"""Looks at what a sample or a batch is made of, without copying or importing anything."""

from __future__ import annotations

from .types import Any, Iterator

PARTS_AT_MOST = 4096
DEPTH_AT_MOST = 4


def leaves(thing: Any, depth: int = 0) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dictionaries."""
    if isinstance(thing, (list, tuple)) and depth < DEPTH_AT_MOST:
        for part in thing:
            yield from leaves(part, depth + 1)
    elif isinstance(thing, dict) and depth < DEPTH_AT_MOST:
        for part in thing.values():
            yield from leaves(part, depth + 1)
    else:
        yield thing


def cargo(batch: Any) -> tuple[int, int, int, int]:
    """(tensors, bytes in tensors, bytes in anything else with a size, bytes of an element of the largest
    tensor)."""
    tensors = tensor_bytes = other = largest = element = 0
    for count, leaf in enumerate(leaves(batch)):
        if count >= PARTS_AT_MOST:
            break
        if hasattr(leaf, "untyped_storage"):
            tensors += 1
            size = leaf.numel() * leaf.element_size()
            tensor_bytes += size
            if size > largest:
                largest, element = size, leaf.element_size()
        else:
            other += getattr(leaf, "nbytes", 0) or (len(leaf) if isinstance(leaf, (bytes, str)) else 0)
    return tensors, tensor_bytes, other, element


def view(sample: Any) -> Iterator[memoryview]:
    """Byte views of the arrays, tensors and texts in a sample; empty for what cannot be viewed."""
    for count, leaf in enumerate(leaves(sample)):
        if count >= 64:
            break
        if isinstance(leaf, bytes):
            yield memoryview(leaf)
        elif isinstance(leaf, str):
            yield memoryview(leaf.encode("utf-8", "replace"))
        elif hasattr(leaf, "untyped_storage"):
            if leaf.device.type == "cpu" and leaf.is_contiguous() and leaf.numel():
                yield memoryview(leaf.detach().view(-1).numpy()).cast("B")
        elif hasattr(leaf, "__array_interface__") and getattr(leaf, "size", False):
            yield memoryview(leaf).cast("B") if leaf.flags.c_contiguous else memoryview(leaf.tobytes())
