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
SAMPLED = Picture(Timeline(38.2), stacks=STACKS)
UNSAMPLED = Picture(Timeline(38.2))
