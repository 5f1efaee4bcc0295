"""Batches kept in memory, to be handed out again as they were."""

from __future__ import annotations

import copy
import sys

from ..fetch import cargo
from ..hints import Any, Callable

DEPTH_AT_MOST = 8


class Given:
    """A batch as the script was given it, to see later whether it wrote into the tensors."""

    def __init__(self, batch: Any) -> None:
        self.tensors: list[tuple[Any, int]] = []
        rebuilt(batch, self._note)

    def _note(self, tensor: Any) -> Any:
        self.tensors.append((tensor, tensor._version))
        return tensor

    def written(self) -> bool:
        """Whether it did, by torch's own count."""
        return any(tensor._version != version for tensor, version in self.tensors)


def copied(batch: Any) -> Any:
    """The batch in memory of its own."""
    return rebuilt(batch, _copied)


def repacked(batch: Any) -> Any:
    """The same tensors in fresh containers."""
    return rebuilt(batch, _same)


def batch_bytes(batch: Any) -> int:
    """Bytes in its tensors and arrays."""
    _, tensor_bytes, other_bytes, _ = cargo(batch)
    return tensor_bytes + other_bytes


def rebuilt(thing: Any, tensor: Callable[[Any], Any], depth: int = 0) -> Any:
    """The same nested containers made anew, each tensor as ``tensor`` gives it. An object of a class unknown
    here is copied with whatever it holds in attributes."""
    if hasattr(thing, "untyped_storage"):
        return tensor(thing)
    if depth >= DEPTH_AT_MOST or isinstance(thing, (str, bytes, int, float, type(None))):
        return thing
    if isinstance(thing, tuple):
        parts = [rebuilt(part, tensor, depth + 1) for part in thing]
        return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
    if isinstance(thing, (list, dict)):
        fresh: Any = copy.copy(thing)
        for place, part in thing.items() if isinstance(thing, dict) else enumerate(thing):
            fresh[place] = rebuilt(part, tensor, depth + 1)
        return fresh
    if hasattr(thing, "__array_interface__"):
        return thing.copy()
    return _object(thing, tensor, depth)


def _object(thing: Any, tensor: Callable[[Any], Any], depth: int) -> Any:
    held = getattr(thing, "__dict__", None)
    if not isinstance(held, dict):
        return thing
    fresh = copy.copy(thing)
    for name, part in held.items():
        fresh.__dict__[name] = rebuilt(part, tensor, depth + 1)
    return fresh


def _same(tensor: Any) -> Any:
    return tensor


def _copied(tensor: Any) -> Any:
    """In memory of its own: not in a block shared with a worker, and pinned where it was."""
    if tensor.is_pinned():
        torch: Any = sys.modules["torch"]
        return torch.empty_like(tensor, pin_memory=True).copy_(tensor)
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
