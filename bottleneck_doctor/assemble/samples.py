"""Folds the sensors' samples into bounded series, and gives blocked samples to the loader they belong to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ..model.fetches import Blocked
from ..model.instruments import Sample, Series, Stack
from ..model.run import Process
from .rows import S

BIRTH = ("_worker_loop ", "_life.<locals>._worker_loop ")
# Since then an interpreter keeps its threads' system ids; before, py-spy takes all but one thread for awake.
SAYS_WHO_SLEEPS = (3, 11)


def read_stacks(stacks: list[Stack], processes: list[Process]) -> list[Stack]:
    """A worker's path begins in its loop; forked processes carry their parent's frames above it."""
    pythons = {one.pid: one.python for one in processes}
    usual = processes[0].python if processes else ""
    return [_believed(_placed(stack), pythons.get(stack.pid) or usual) for stack in stacks]


def _placed(stack: Stack) -> Stack:
    births = [place for place, frame in enumerate(stack.frames) if frame.startswith(BIRTH)]
    if not births:
        return replace(stack, role="trainer")
    return replace(stack, role="worker", frames=stack.frames[births[-1] :])


def _believed(stack: Stack, python: str) -> Stack:
    parts = [int(part) for part in python.split(".")[:2] if re.fullmatch(r"[0-9]{1,9}", part)]
    old = bool(parts) and tuple(parts) < SAYS_WHO_SLEEPS
    return replace(stack, running=None) if old else stack


POINTS_AT_MOST = 1024
CELLS_AT_MOST = 100_000  # so that many GPUs, each with three dozen names, leave a profile its size (chosen)
BUCKETS_AT_MOST = 512
NOT_COUNTS = frozenset({"pid", "width_s"})
GRID_NS = 500_000_000  # sensors of one tick read a few milliseconds apart; they share a row
SEPARATE = frozenset({"blocked", "loop", "file"})


def read_series(samples: Iterable[Sample], origin: int) -> Series:
    """One row per half-second; the sensors' names are unique already. In long runs a row stands for several:
    each name keeps its last value, so that what is read rarely, or not in step with the rest, is not lost."""
    rows: dict[int, dict[str, float]] = {}
    for sample in samples:
        if sample.sensor not in SEPARATE:
            numbers = {
                name: float(value) for name, value in sample.values.items() if not isinstance(value, str)
            }
            rows.setdefault(sample.t_ns // GRID_NS * GRID_NS, {}).update(numbers)
    times = sorted(rows)
    names = sorted({name for row in rows.values() for name in row})
    at_most = min(POINTS_AT_MOST, max(1, CELLS_AT_MOST // max(1, len(names))))
    every = -(-len(times) // at_most) or 1
    groups = [times[place : place + every] for place in range(0, len(times), every)]
    kept = [{name: value for t in group for name, value in rows[t].items()} for group in groups]
    return Series(
        [max(0.0, (group[-1] - origin) * S) for group in groups],
        {name: [row.get(name) for row in kept] for name in names},
    )


def read_blocked(samples: Iterable[Sample], loader_of: dict[int, str], origin: int) -> list[Blocked]:
    """What fetching threads were seen doing, per loader and half-second, and training loops."""
    bins: dict[tuple[str, int], dict[int, Counter[str]]] = {}
    for sample in samples:
        key = _key(sample, loader_of)
        if key is not None:
            counts = bins.setdefault(key, {}).setdefault(sample.t_ns, Counter())
            for name, value in sample.values.items():
                if name not in NOT_COUNTS and not isinstance(value, str):
                    counts[name] += int(value)
    return [_blocked(key, rows, origin) for key, rows in bins.items()]


def _key(sample: Sample, loader_of: dict[int, str]) -> tuple[str, int] | None:
    """Whose sample it is: (loader, 0), or ("", pid) for a training loop."""
    pid = int(float(sample.values.get("pid", 0)))
    if sample.sensor == "loop":
        return "", pid
    loader = loader_of.get(pid) if sample.sensor == "blocked" else None
    return (loader, 0) if loader else None


def _blocked(key: tuple[str, int], rows: dict[int, Counter[str]], origin: int) -> Blocked:
    times = sorted(rows)
    every = -(-len(times) // BUCKETS_AT_MOST) or 1
    result = Blocked(key[0], pid=key[1])
    for place in range(0, len(times), every):
        total: Counter[str] = Counter()
        for t in times[place : place + every]:
            total.update(rows[t])
        result.t.append((times[place] - origin) * S)
        result.counts.append({name: count for name, count in total.items() if count})
    return result
