"""Pictures as an analysis gathers them, up to the largest that it gives: for every test that draws."""

import random

from bottleneck_doctor.model.picture import CallPath, CallPaths, Curve, Mark, Picture, Timeline


def timeline(duration_s: float = 38.2, points: int = 120, marks: int = 6) -> Timeline:
    """A run whose step time jumps once, with everything measured but the first seconds of the GPU."""
    dice = random.Random(1)
    t = [duration_s * (place + 0.5) / points for place in range(points)]
    late = [place > 0.6 * points for place in range(points)]
    step = [(0.034 if slow else 0.024) * dice.uniform(0.95, 1.08) for slow in late]
    gpu = [None if place < points // 10 else dice.uniform(0.3, 0.5) for place in range(points)]
    curves = [
        Curve("step_time_s", "step", t, list(step)),
        Curve("step_time_high_s", "step", t, [one * dice.uniform(1.1, 2.2) for one in step]),
        Curve(
            "data_wait_share", "wait", t, [0.7 if slow else 0.6 + dice.uniform(-0.05, 0.05) for slow in late]
        ),
        Curve("gpu_busy_share", "gpu", t, gpu),
        Curve("job_cores", "cpu", t, [dice.uniform(2.8, 3.4) for _ in t]),
        Curve("other_cores", "cpu", t, [dice.uniform(0.6, 0.9) if slow else 0.1 for slow in late]),
        Curve("worker_busy_share", "cpu", t, [dice.uniform(0.9, 1.0) for _ in t]),
        Curve("job_read_bytes_per_s", "io", t, [dice.uniform(2e7, 4e7) for _ in t]),
        Curve("iowait_share", "io", t, [dice.uniform(0, 0.02) for _ in t]),
        Curve("pressure_cpu_share", "pressure", t, [0.3 if slow else 0.04 for slow in late]),
        Curve("pressure_io_share", "pressure", t, [dice.uniform(0, 0.05) for _ in t]),
        Curve("pressure_memory_share", "pressure", t, [0.0 for _ in t]),
        Curve("job_rss_bytes", "memory", t, [2.1e9 + 1e7 * place for place in range(points)]),
    ]
    return Timeline(duration_s, curves, _marks(duration_s, marks))


def _marks(duration_s: float, count: int) -> list[Mark]:
    whole = [
        Mark("warm-up", 0.0, 0.06 * duration_s),
        Mark("phase", 0.0, 0.6 * duration_s, "CPU-bound, making batches"),
        Mark("phase", 0.6 * duration_s, duration_s, "CPU-bound, others took the cores"),
        Mark("instrument", 0.1 * duration_s, 0.16 * duration_s, "py-spy"),
        Mark("instrument", 0.18 * duration_s, 0.19 * duration_s, "torch.profiler"),
    ]
    kinds = ("evaluation", "checkpoint")
    some = [
        Mark(
            kinds[place % 2],
            begin := duration_s * (0.2 + 0.8 * place / count),
            begin + 0.3 * duration_s / count,
        )
        for place in range(count)
    ]
    return [*whole, *some]


PICTURE = Picture(timeline())
LARGEST = Picture(timeline(86_400.0, 1000, 200))
EMPTY = Picture(Timeline(0.0))


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
