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
    found = []
    for stack in stacks:
        births = [place for place, frame in enumerate(stack.frames) if frame.startswith(BIRTH)]
        frames = stack.frames[births[-1] :] if births else stack.frames
        python = re.match(r"([0-9]{1,9})\.([0-9]{1,9})", pythons.get(stack.pid) or usual)
        old = python is not None and tuple(map(int, python.groups())) < SAYS_WHO_SLEEPS
        role, running = "worker" if births else "trainer", None if old else stack.running
        found.append(replace(stack, role=role, frames=frames, running=running))
    return found


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
        pid = int(float(sample.values.get("pid", 0)))
        loader = loader_of.get(pid, "") if sample.sensor == "blocked" else ""
        if loader or sample.sensor == "loop":
            counts = bins.setdefault((loader, 0 if loader else pid), {}).setdefault(sample.t_ns, Counter())
            for name, value in sample.values.items():
                if name not in NOT_COUNTS and not isinstance(value, str):
                    counts[name] += int(value)
    found = []
    for (loader, pid), rows in bins.items():
        times = sorted(rows)
        every = -(-len(times) // BUCKETS_AT_MOST) or 1
        groups = [times[place : place + every] for place in range(0, len(times), every)]
        totals = [sum((rows[t] for t in group), Counter[str]()) for group in groups]  # zeros are left out
        instants = [(group[0] - origin) * S for group in groups]
        found.append(Blocked(loader, instants, [dict(total) for total in totals], pid=pid))
    return found
