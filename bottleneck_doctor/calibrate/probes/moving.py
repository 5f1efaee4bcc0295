"""Times batches of the training's shape on their way from workers; a script of its own, in the user's Python.

A real loader with real workers; each batch is made anew, as a collate function makes it, and dropped.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

WARM = 3
EACH_S = 0.5
LARGEST_BATCH = 256 << 20


def main(request: dict[str, Any], tell: Callable[..., None]) -> None:
    """``request``: tensors, tensor_bytes, other_bytes (of a batch), workers. One row for each way."""
    torch = importlib.import_module("torch")
    loaders = importlib.import_module("torch.utils.data")
    torch.set_num_threads(1)
    if request["tensor_bytes"] + request["other_bytes"] > LARGEST_BATCH:
        return
    for name, make, strategy in _ways(torch, request):
        if strategy:
            torch.multiprocessing.set_sharing_strategy(strategy)
        loader = loaders.DataLoader(_Batches(make), batch_size=None, num_workers=request["workers"])
        making_s = _making(make) / request["workers"]
        tell(subject="moving", variant=name, **_timed(iter(loader), making_s), size_bytes=_bytes(request))


class _Batches:
    """A data set whose items are whole batches."""

    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> object:
        return self.make()


def _bytes(request: dict[str, Any]) -> float:
    return float(request["tensor_bytes"] + request["other_bytes"])


def _ways(torch: Any, request: dict[str, Any]) -> list[tuple[str, Callable[[], object], str]]:
    """The batch as it is, and as it could be: (name, how to make one, how to share it)."""
    count, in_tensors = round(request["tensors"]), round(request["tensor_bytes"] / 4)
    in_arrays = round(request["other_bytes"] / 4)
    ways: list[tuple[str, Callable[[], object], str]] = []
    if in_arrays > in_tensors:
        numpy = importlib.import_module("numpy")
        array = numpy.zeros(in_arrays, "float32")
        ways.append(("now", array.copy, ""))
        ways.append(("as tensors", lambda: torch.from_numpy(array.copy()), ""))
    elif count > 1:
        part = torch.zeros(max(1, in_tensors // count))
        whole = torch.zeros(max(1, in_tensors))
        ways.append(("now", lambda: [part.clone() for _ in range(count)], ""))
        ways.append(("packed", whole.clone, ""))
        ways.append(("by name", lambda: [part.clone() for _ in range(count)], "file_system"))
    return ways


def _making(make: Callable[[], object]) -> float:
    """Seconds to make a batch: not part of moving it."""
    make()
    began = time.perf_counter()
    for _ in range(WARM):
        make()
    return (time.perf_counter() - began) / WARM


def _timed(batches: Any, making_s: float) -> dict[str, float]:
    for _ in range(WARM * 2):
        next(batches)
    count, began, worked = 0, time.perf_counter(), time.thread_time()
    while time.perf_counter() - began < EACH_S:
        next(batches)
        count += 1
    wall, cpu = (time.perf_counter() - began) / count, (time.thread_time() - worked) / count
    return {"seconds": max(cpu, wall - making_s), "cpu_s": cpu, "repeats": count}
