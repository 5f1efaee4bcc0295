"""Pictures as an analysis would draw them, for tests of what is drawn from stacks."""

from __future__ import annotations

from bottleneck_doctor.model.picture import CallPath, CallPaths, Picture, Timeline

MAIN = "main (/home/ann/cats/train.py:41)"
NEXT = "__next__ (/usr/lib/python3.11/site-packages/torch/utils/data/dataloader.py:630)"
WAIT = "wait (/usr/lib/python3.11/threading.py:331)"
LOOP = "_worker_loop (/usr/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py:308)"
ITEM = "Photos.__getitem__ (/home/ann/cats/data.py:12)"
LOAD = "ImageFile.load (/usr/lib/python3.11/site-packages/PIL/ImageFile.py:425)"
STACKS = [
    CallPaths("trainer", 98, [CallPath([MAIN, NEXT, WAIT], 80, 0), CallPath([MAIN], 18, 17)]),
    CallPaths(
        "worker",
        389,
        [CallPath([LOOP, ITEM, LOAD], 289, 118), CallPath([LOOP, ITEM], 68, 70), CallPath([LOOP], 32, 0)],
    ),
    CallPaths("other", 98, [CallPath(["_feed (/usr/lib/python3.11/multiprocessing/queues.py:239)"], 98)]),
]


def _frame(depth: int, number: int) -> str:
    folder = "/usr/lib/python3.11/site-packages/deep" if depth % 2 else "/home/ann/cats"
    return f"function_{depth}_{number} ({folder}/module_{number}.py:{depth + 1})"


SAMPLED = Picture(Timeline(38.2), stacks=STACKS)
UNSAMPLED = Picture(Timeline(38.2))


def _frame(depth: int, number: int) -> str:
    folder = "/usr/lib/python3.11/site-packages/deep" if depth % 2 else "/home/ann/cats"
    return f"function_{depth}_{number} ({folder}/module_{number}.py:{depth + 1})"


def _path(number: int) -> CallPath:
    """Nearly as wide at the bottom as a screen can show, 128 deep."""
    return CallPath([_frame(depth, number * min(depth, 9) // 9) for depth in range(128)], 7, number % 8)


# As much as an analysis hands over.
DEEP = Picture(Timeline(38.2), stacks=[CallPaths("worker", 4200, [_path(number) for number in range(600)])])
