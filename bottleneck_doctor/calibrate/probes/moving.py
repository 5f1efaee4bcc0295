"""Times batches of the training's shape on their way from workers; a script of its own, in the user's Python.

A real loader with real workers; each batch is made anew, as a collate function makes it, and dropped.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

Make = Callable[[], object]
Use = Callable[[Any], object]

WARM = 3
EACH_S = 0.5
LARGEST_BATCH = 256 << 20


def main(request: dict[str, Any], tell: Callable[..., None]) -> None:
    """``request``: tensors, tensor_bytes, other_bytes (of a batch), workers. One row for each way."""
    torch, loaders = _module("torch"), _module("torch.utils.data")
    torch.set_num_threads(1)
    if request["tensor_bytes"] + request["other_bytes"] > LARGEST_BATCH:
        return
    for name, make, use, strategy in _ways(torch, request):
        if strategy:
            torch.multiprocessing.set_sharing_strategy(strategy)
        loader = loaders.DataLoader(
            _Batches(make), batch_size=None, collate_fn=_as_it_is, num_workers=request["workers"]
        )
        making_s = _making(make) / request["workers"]
        moved, used = _timed(iter(loader), making_s, use)
        tell(subject="moving", variant=name, **moved, size_bytes=_bytes(request))
        tell(subject="using", variant=name, **used, size_bytes=_bytes(request))


def _module(path: str) -> Any:
    """A module of the user's interpreter; without it this probe has nothing to say."""
    return importlib.import_module(path)


class _Batches:
    """A data set whose items are whole batches."""

    def __init__(self, make: Make) -> None:
        self.make = make

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> object:
        return self.make()


def _bytes(request: dict[str, Any]) -> float:
    return float(request["tensor_bytes"] + request["other_bytes"])


def _as_it_is(batch: object) -> object:
    return batch


def _ways(torch: Any, request: dict[str, Any]) -> list[tuple[str, Make, Use, str]]:
    """The batch as it is, and as it could be: (name, how to make one, how to use it, how to share it)."""
    count, in_tensors = round(request["tensors"]), round(request["tensor_bytes"] / 4)
    in_arrays = round(request["other_bytes"] / 4)
    ways: list[tuple[str, Make, Use, str]] = []
    if in_arrays > in_tensors:
        numpy = _module("numpy")
        array = numpy.zeros(in_arrays, "float32")
        ways.append(("now", array.copy, _sum_of, ""))
        ways.append(("as tensors", lambda: torch.from_numpy(array.copy()), _sum_of, ""))
    elif count > 1:
        part = torch.zeros(max(1, in_tensors // count))
        whole = torch.zeros(max(1, in_tensors))
        each = max(1, in_tensors // count)
        ways.append(("now", lambda: [part.clone() for _ in range(count)], _sums_of, ""))
        ways.append(("packed", whole.clone, lambda batch: _sums_of(batch.split(each)), ""))
        ways.append(("by name", lambda: [part.clone() for _ in range(count)], _sums_of, "file_system"))
    return ways


def _sum_of(array: Any) -> object:
    return array.sum()


def _sums_of(tensors: Any) -> object:
    return [tensor.sum() for tensor in tensors]


def _making(make: Make) -> float:
    """Seconds to make a batch: not part of moving it."""
    make()
    began = time.perf_counter()
    for _ in range(WARM):
        make()
    return (time.perf_counter() - began) / WARM


def _timed(batches: Any, making_s: float, use: Use) -> tuple[dict[str, float], dict[str, float]]:
    """(receiving a batch, touching and freeing it): each by the loop's own CPU, the first by wall time too.
    A tensor that arrives is no more than a name until its pages are touched."""
    for _ in range(WARM * 2):
        use(next(batches))
    count, received, used, began = 0, 0.0, 0.0, time.perf_counter()
    while time.perf_counter() - began < EACH_S:
        start = time.thread_time()
        batch = next(batches)
        arrived = time.thread_time()
        use(batch)
        del batch
        received, used, count = received + arrived - start, used + time.thread_time() - arrived, count + 1
    wall = (time.perf_counter() - began) / count
    cpu, after = received / count, used / count
    moved = {"seconds": max(cpu, wall - after - making_s), "cpu_s": cpu, "repeats": count}
    return moved, {"seconds": after, "cpu_s": after, "repeats": count}
