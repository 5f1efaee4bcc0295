"""Turns a sample into bytes and back without pickling its arrays: a sample kept in memory must cost a copy.

What is handed out is a copy each time, so that a script may change it in place. Only trials load this.
"""

from __future__ import annotations

import pickle
import sys

from ..hints import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Packed = tuple[bytes, list[memoryview]]  # the sample's shape, pickled; the bytes of its arrays

ALIGNED = 64
PLAIN = (type(None), bool, int, float, str, bytes)
NUMBERS = "biufc"  # kinds of NumPy's types that are nothing but bytes
SHAPES_AT_MOST = 1024  # that are remembered unpickled


def pack(sample: Any) -> tuple[bytes, list[Any]]:
    """The sample as (shape, buffers). Raises what pickle raises for what cannot be pickled."""
    buffers: list[Any] = []
    return pickle.dumps(_shape(sample, buffers, [0]), protocol=5), buffers


def _shape(thing: Any, buffers: list[Any], size: list[int]) -> tuple[Any, ...]:
    kind = type(thing)
    if kind in PLAIN:
        return "plain", thing
    if kind in (tuple, list):
        return kind.__name__, [_shape(part, buffers, size) for part in thing]
    if kind is dict:
        return "dict", [(key, _shape(part, buffers, size)) for key, part in thing.items()]
    return _array(thing, buffers, size) or ("pickled", pickle.dumps(thing, protocol=5))


def _array(thing: Any, buffers: list[Any], size: list[int]) -> tuple[Any, ...] | None:
    """Where an array's bytes lie, and as what; None for anything else."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(thing) is torch.Tensor:
        if thing.device.type != "cpu" or thing.layout is not torch.strided or thing.requires_grad:
            return None
        flat = thing.resolve_conj().resolve_neg().contiguous().view(-1)
        raw = flat.view(torch.uint8).numpy().data if flat.numel() else b""
        name, shape = str(thing.dtype).partition(".")[2], tuple(thing.shape)
        return ("tensor", name, shape, thing.numel(), _placed(raw, buffers, size))
    if numpy is not None and type(thing) is numpy.ndarray and thing.dtype.kind in NUMBERS:
        raw = numpy.ascontiguousarray(thing).reshape(-1).view(numpy.uint8).data if thing.size else b""
        return ("array", thing.dtype.str, thing.shape, thing.size, _placed(raw, buffers, size))
    return None


def _placed(raw: Any, buffers: list[Any], size: list[int]) -> int:
    """Append the bytes, aligned; where they begin."""
    gap = -size[0] % ALIGNED
    if gap:
        buffers.append(bytes(gap))
    begin = size[0] + gap
    buffers.append(raw)
    size[0] = begin + len(raw)
    return begin


_shapes: dict[bytes, Any] = {}


def unpack(shape: bytes, data: bytearray) -> Any:
    """The sample again; its arrays lie in ``data``, which is theirs from now on."""
    known = _shapes.get(shape)
    if known is None:
        known = pickle.loads(shape)  # written by ourselves, in this run
        if len(_shapes) < SHAPES_AT_MOST:
            _shapes[shape] = known
    return _built(known, data)


def _built(shape: Any, data: bytearray) -> Any:
    kind = shape[0]
    if kind == "plain":
        return shape[1]
    if kind == "tensor":
        torch: Any = sys.modules["torch"]
        _, name, size, count, begin = shape
        dtype = getattr(torch, name)
        if not count:
            return torch.empty(size, dtype=dtype)
        return torch.frombuffer(data, dtype=dtype, count=count, offset=begin).view(size)
    if kind == "array":
        numpy: Any = sys.modules["numpy"]
        return numpy.frombuffer(data, shape[1], shape[3], shape[4]).reshape(shape[2])
    if kind == "pickled":
        return pickle.loads(shape[1])
    if kind == "dict":
        return {key: _built(part, data) for key, part in shape[1]}
    parts = [_built(part, data) for part in shape[1]]
    return tuple(parts) if kind == "tuple" else parts
