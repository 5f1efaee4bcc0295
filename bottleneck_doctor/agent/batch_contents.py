"""Reads what batches and samples are made of: sizes, bytes, padding.

They are the script's objects, and reading them must not run the script's code: attributes of unknown classes,
``__len__``, ``__iter__`` and ``__torch_function__`` may print, load, count or raise. Only types of Python,
NumPy and torch are read, and the instance dictionaries of ``UserDict`` (transformers' ``BatchEncoding``),
dataclasses and PyG's ``Data``. A subclass of a tensor is read as the plain tensor that it holds; what
overrides more than ``__torch_function__`` counts as nothing.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, UserDict
from types import GetSetDescriptorType
from zlib import crc32

from .guard import overheard
from .hints import Any, Iterator

PARTS_AT_MOST = 4096
SAMPLE_PARTS_AT_MOST = 64  # that are searched for padding
SAMPLED = 1 << 14  # elements of a tensor or array that a checksum reads (measured: 40 to 200 µs)
READ_AT_MOST = 256  # parts of a sample (measured: 0.5 to 1.5 ms for as many numbers)
TEXTS = (str, bytes, bytearray)
NUMBERS = (int, float, complex, type(None))
DEPTH_AT_MOST = 6
FIELDS = "__dataclass_fields__"


def leaves(thing: Any, depth: int = 0) -> Iterator[Any]:
    """The leaves of nested lists, tuples, dictionaries and what ``_held`` opens; all else is a leaf."""
    kind = type(thing)
    if depth >= DEPTH_AT_MOST:
        yield thing
    elif issubclass(kind, (list, tuple)) and kind.__iter__ in (list.__iter__, tuple.__iter__):
        for part in thing:
            yield from leaves(part, depth + 1)
    elif issubclass(kind, dict) and kind.values in (dict.values, OrderedDict.values):
        for part in thing.values():
            yield from leaves(part, depth + 1)
    elif (held := _held(thing)) is not None:
        yield from leaves(held, depth + 1)
    else:
        yield thing


def _held(thing: Any) -> Any:
    """What a ``UserDict``, a dataclass or a graph of PyG holds, read without calling any of its methods; None
    for other objects."""
    kind = type(thing)
    fields = next((one.__dict__[FIELDS] for one in kind.__mro__ if FIELDS in one.__dict__), None)
    if (
        fields is None
        and not issubclass(kind, UserDict)
        and not kind.__module__.startswith("torch_geometric.")
    ):
        return None
    plain = next((one.__dict__["__dict__"] for one in kind.__mro__ if "__dict__" in one.__dict__), None)
    if not isinstance(plain, GetSetDescriptorType):  # no instance dictionary, or one that the class computes
        return None
    held = plain.__get__(thing)
    if fields is not None:
        return [held[name] for name in fields if name in held]
    return held.get("data", held.get("_mapping", held.get("_store")))


def plain_tensor(leaf: Any) -> Any:
    """The leaf as a ``torch.Tensor`` that only torch itself handles; None where there is none."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not issubclass(type(leaf), torch.Tensor):
        return None
    if type(leaf) in (torch.Tensor, torch.nn.Parameter):
        return leaf
    if type(leaf).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return None
    return torch.Tensor.as_subclass(leaf, torch.Tensor)


def sizes(batch: Any) -> tuple[int, int, int, int]:
    """(tensors, bytes in tensors, bytes in arrays and texts, bytes of an element of the largest tensor)."""
    tensors = tensor_bytes = other = largest = element = 0
    for count, leaf in enumerate(leaves(batch)):
        if count >= PARTS_AT_MOST:
            break
        tensor = plain_tensor(leaf)
        if tensor is not None:
            tensors += 1
            size = tensor.numel() * tensor.element_size()
            tensor_bytes += size
            if size > largest:
                largest, element = size, tensor.element_size()
        elif type(leaf) in (bytes, str):
            other += len(leaf)
        elif _is_array(leaf):
            other += leaf.nbytes
    return tensors, tensor_bytes, other, element


def _is_array(leaf: Any) -> bool:
    """An array of NumPy's, or a single number of one."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return False
    kind = type(leaf)
    number = issubclass(kind, numpy.generic) and kind.__module__ == "numpy"
    return number or kind in (numpy.ndarray, numpy.memmap)


def checksum(sample: Any) -> tuple[int, int]:
    """(checksum, bytes of all parts); (0, 0) where one cannot be read, since samples that differ there must
    not count as equal."""
    total = size = 0
    for count, leaf in enumerate(leaves(sample) if not overheard() else ()):
        part = read_part(leaf) if count < READ_AT_MOST else None
        if part is None:
            return 0, 0
        total, size = crc32(part[0], total), size + part[1]
    return total, size


def read_part(leaf: Any) -> tuple[Any, int] | None:
    """(contents, size in bytes) of a number, text, array or tensor on the CPU, else None. Of large ones the
    contents are evenly spaced elements."""
    base: Any = type(leaf)
    if base not in NUMBERS:
        base = next((one for one in (*TEXTS, *NUMBERS) if issubclass(base, one)), None)
    if base in TEXTS:  # the class's own methods may be the script's
        count = base.__len__(leaf)
        text = base.__getitem__(leaf, slice(None, None, count // SAMPLED + 1))
        return text.encode("utf-8", "replace") if base is str else text, count
    if base is not None:
        text = base.__repr__(leaf).encode()
        return text, len(text)
    tensor = plain_tensor(leaf)
    if tensor is not None and tensor.device.type == "cpu" and str(tensor.layout) == "torch.strided":
        values = _thinned(tensor.detach().resolve_conj()).contiguous().view(-1)
        # As bytes, since numpy knows no bfloat16.
        return values.view(sys.modules["torch"].uint8).numpy(), tensor.numel() * tensor.element_size()
    if _is_array(leaf) and not leaf.dtype.hasobject:
        return _thinned(leaf).tobytes(), leaf.nbytes
    return None


def _thinned(values: Any) -> Any:
    """About ``SAMPLED`` elements at most, evenly spaced in every dimension; all where they are few."""
    count, shape = 1, tuple(values.shape)
    for length in shape:
        count *= length
    step = int((count / SAMPLED) ** (1 / len(shape))) + 1 if count > SAMPLED else 1
    return values[(slice(None, None, step),) * len(shape)] if step > 1 else values


ROWS_AT_MOST = 64
COLUMNS_AT_MOST = 4096
COLUMNS_AT_LEAST = 8
NUMBERS_AT_MOST = 1 << 18  # of feature vectors, compared with zero: 0.1 to 0.2 ms
ELSEWHERE = 0.01  # share of real places that hold the filler: above it, it is no padding


def padding(batch: Any) -> tuple[int, int, int]:
    """(places, of these padding, of these beyond the longest row) in the first tensor that looks like rows of
    tokens or of feature vectors; zeros without one."""
    for count, leaf in enumerate(leaves(batch)):
        if count >= SAMPLE_PARTS_AT_MOST:
            break
        tensor = plain_tensor(leaf)
        if tensor is not None and tensor.device.type == "cpu" and len(tensor.shape) > 1 and len(tensor) > 1:
            tokens = _is_tokens(tensor)
            rows = tensor[:ROWS_AT_MOST] if tokens else _vectors(tensor)
            if rows is not None:
                sides = (rows, rows.flip(1))
                runs = [_run(side, side[:, -1].mode().values if tokens else 0) for side in sides]
                return rows.numel(), *max(runs)
    return 0, 0, 0


def _vectors(tensor: Any) -> Any:
    """Of vectors of floats, by row and place: 0 = all zero, 1 = any other; None where there are no such."""
    if tensor.dim() != 3 or not tensor.is_floating_point():
        return None
    if not COLUMNS_AT_LEAST <= tensor.shape[1] <= COLUMNS_AT_MOST or not tensor.shape[2]:
        return None
    rows = min(ROWS_AT_MOST, NUMBERS_AT_MOST // (tensor.shape[1] * tensor.shape[2]))
    return (tensor[:rows] != 0).any(2).long() if rows > 1 else None


def _is_tokens(tensor: Any) -> bool:
    if str(tensor.dtype) not in ("torch.int64", "torch.int32") or tensor.dim() != 2:
        return False
    fits = COLUMNS_AT_LEAST <= tensor.shape[1] <= COLUMNS_AT_MOST
    return fits and int(tensor[:ROWS_AT_MOST].max()) > 1  # zeros and ones are a mask, or labels


def _run(rows: Any, filler: Any) -> tuple[int, int]:
    """Places at the rows' ends that hold the filler, if it is rare elsewhere; and those at which all do."""
    real = (rows != filler).flip(1).cumsum(1).flip(1) > 0  # something real stands here or further on
    inside = int((real & (rows == filler)).sum())
    count = int(real.sum())
    if inside > ELSEWHERE * max(count, 1):
        return 0, 0
    return rows.numel() - count, int((~real.any(0)).sum()) * len(rows)
