"""A training of 100,000 steps and 16 workers, as the agents and sensors of a real one would have left it.

The loop and its workers are simulated batch by batch; then each process writes its rows into the agent's own
book, thinned as the agent thins them when one chunk of its file after another is full.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from bottleneck_doctor.agent import wire
from bottleneck_doctor.agent.rows import EventWriter
from bottleneck_doctor.agent.state import STRIDE_AT_MOST
from bottleneck_doctor.assemble.profile import Remains
from bottleneck_doctor.model.instruments import InstrumentWindow, Sample, Stack
from bottleneck_doctor.model.run import Machine, Run

STEPS, WORKERS, PREFETCH, EPOCHS = 100_000, 16, 2, 20
LENGTH = STEPS // EPOCHS
EVALUATED = 40  # batches after each epoch
CHECKPOINT_EVERY, LOG_EVERY = 1000, 20
TRAINER, FIRST_WORKER = 100, 200
MS = 1_000_000
ORIGIN = 10**12
COST, FETCH, HAND_OVER = 30 * MS, 470 * MS, MS


@dataclass
class Course:
    """What happened, in nanoseconds, batch by batch: who asked when, who fetched when."""

    asked: list[int] = field(default_factory=list)
    got: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    fetched: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int, int]] = field(default_factory=list)  # begin, built, end


def simulated(chance: random.Random, steps: int) -> Course:
    """The loop asks, the workers make batches in turn, never more than so many ahead."""
    course, t = Course(), ORIGIN + 3_000 * MS
    for first in range(0, steps, LENGTH):
        last = min(first + LENGTH, steps)
        begin, built = t, t + 60 * MS
        t = built
        for batch in range(first, last):
            before, ahead = batch - WORKERS, batch - PREFETCH * WORKERS
            free = course.fetched[before] if before >= first else built
            ordered = course.got[ahead] if ahead >= first else built
            course.begun.append(max(free, ordered) + MS // 10)
            slow = 3.0 if chance.random() < 0.01 else 1.0
            course.fetched.append(course.begun[-1] + int(FETCH * slow * chance.uniform(0.8, 1.2)))
            course.asked.append(t)
            course.got.append(max(t + MS // 5, course.fetched[-1] + HAND_OVER))
            t = course.got[-1] + int(COST * chance.uniform(0.95, 1.05))
            if batch % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                t += 400 * MS
        course.epochs.append((begin, built, t))
        t += EVALUATED * 20 * MS
    return course


class Thinned:
    """A process's book with the floor that rises with each chunk that is full."""

    def __init__(self, folder: Path, pid: int) -> None:
        with mock.patch.object(os, "getpid", lambda pid=pid: pid):
            self.writer = EventWriter(str(folder))
        self.floor = 1
        self.writer.on_full = self._halve

    def _halve(self) -> None:
        self.floor = min(self.floor * 2, STRIDE_AT_MOST)


def write(folder: Path, steps: int = STEPS) -> Course:
    """The rows and facts of all processes."""
    chance = random.Random(11)
    course = simulated(chance, steps)
    _write_loop(Thinned(folder, TRAINER), course, chance)
    for worker in range(WORKERS):
        _write_worker(Thinned(folder, FIRST_WORKER + worker), worker, course, chance)
    return course


def _write_loop(thinned: Thinned, course: Course, chance: random.Random) -> None:
    writer, waited, looks = thinned.writer, 0, 0
    _introduce(writer)
    for epoch, (begin, built, end) in enumerate(course.epochs):
        number = 2 * epoch + 1
        writer.row(wire.EPOCH, begin, built - begin, number, thing=1)
        for worker in range(WORKERS):
            writer.row(wire.WORKER, begin, 0, FIRST_WORKER + worker, worker, thing=1)
        waited, arrived, countdown = built - begin, 0, 0
        for batch in range(epoch * LENGTH, min((epoch + 1) * LENGTH, len(course.got))):
            asked, got = course.asked[batch], course.got[batch]
            waited, arrived = waited + got - asked, arrived + 1
            _write_operations(thinned, batch, got, chance)
            if countdown > 0:
                countdown -= 1
                continue
            looks += 1
            countdown = thinned.floor - 1 + (looks & 1 if thinned.floor > 1 else 0)
            writer.row(wire.NEXT, asked, got - asked, arrived, MS // 5, waited, batch, batch, 1)
            cpu = ORIGIN // 100 + batch * 25 * MS
            writer.row(wire.CLOCKS, asked, number, cpu, cpu + cpu // 5, batch * MS // 3, 0, MS // 9, 1)
            writer.row(wire.BACKWARD, got + 12 * MS, 11 * MS)
            writer.row(wire.OPTIMIZER, got + 25 * MS, 2 * MS)
            writer.row(wire.SAMPLING, got, 20_000, thing=1)
        writer.row(wire.END, end, MS, 2 * epoch + 1, 1, waited + MS, arrived, batch + 1, 1)
        _write_evaluation(writer, number + 1, end + 2 * MS, batch + 1)
    for word, value in ((wire.STEPS, len(course.got)), (wire.COST, 30_000 * looks)):
        writer.post(word, value)


def _introduce(writer: EventWriter) -> None:
    writer.fact(fact="process", python="3.11.9", argv=["train.py"])
    writer.fact(fact="torch", version="2.13.0", threads=4)
    for thing, workers in ((1, WORKERS), (2, 0)):
        writer.fact(
            fact="loader", thing=thing, kind="dataloader", dataset="Photos", length=32 * LENGTH,
            batch_size=32,
            num_workers=workers, prefetch_factor=PREFETCH, persistent_workers=True, file="train.py",
            line=40 + thing, dataset_kind="map",
        )  # fmt: skip
    for site, kind in ((1, "checkpoint"), (2, "logging")):
        writer.fact(fact="site", site=site, kind=kind, file="train.py", line=60 + site, function="main")


def _write_operations(thinned: Thinned, batch: int, got: int, chance: random.Random) -> None:
    """Checkpoints and log records, several of these to a row once the file has filled a while."""
    writer, calls = thinned.writer, thinned.floor
    if batch % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
        writer.row(wire.OPERATION, got + 28 * MS, 390 * MS, 80 * MS, 0, 0, 1, thing=1)
    if batch % (LOG_EVERY * calls) == 0:
        writer.row(wire.OPERATION, got + 27 * MS, calls * chance.randrange(MS), MS, 0, 1, calls, thing=2)


def _write_evaluation(writer: EventWriter, number: int, t: int, backwards: int) -> None:
    writer.row(wire.EPOCH, t, MS, number, thing=2)
    waited = MS
    for arrived in range(1, EVALUATED + 1):
        waited += 8 * MS
        begin = t + arrived * 18 * MS
        writer.row(wire.NEXT, begin, 8 * MS, arrived, 7 * MS, waited, backwards, backwards, 2)
        writer.row(wire.CLOCKS, begin, number, 0, 0, 0, wire.NOTHING, 0, 2)
    writer.row(wire.END, t + EVALUATED * 19 * MS, 0, number, 1, waited, EVALUATED, backwards, 2)


def _write_worker(thinned: Thinned, worker: int, course: Course, chance: random.Random) -> None:
    writer, skip = thinned.writer, 0
    writer.fact(fact="worker", worker=worker, workers=WORKERS)
    mine = (
        batch
        for first in range(0, len(course.got), LENGTH)
        for batch in range(first + worker, min(first + LENGTH, len(course.got)), WORKERS)
    )
    for count, batch in enumerate(mine, 1):
        begin, took = course.begun[batch], course.fetched[batch] - course.begun[batch]
        if skip > 0:
            skip -= 1
            continue
        skip = thinned.floor - 1
        cpu, queue = int(0.3 * took), int(0.1 * took * chance.random())
        writer.row(wire.FETCH, begin, took, cpu, queue, cpu, 5_000_000 + chance.randrange(10**5), 0)
        writer.row(wire.BATCH, begin, 6 * MS, 5 * MS, 32, 5_100_000, cpu // 9, cpu // 2)
        writer.row(wire.COUNT, begin, 0, count, 32, 64)
        if count % 16 == 1:
            writer.row(wire.CONTENT, begin, 0, 2, 19_267_584, 0)
        writer.row(wire.PICKLE, begin + took, MS // 2, MS // 3, 900)


def samples(end_s: float) -> Iterator[Sample]:
    """What the sensors saw every half-second, and every two seconds what the workers slept in."""
    chance = random.Random(5)
    counters = dict.fromkeys(RATES, 0.0)
    for tick in range(int(2 * end_s)):
        t = ORIGIN + tick * 500 * MS
        for name, rate in RATES.items():
            counters[name] += 0.5 * rate * chance.uniform(0.5, 1.5)
        yield Sample(t, "machine", {**counters, "job_rss_bytes": 20e9 + 1e6 * tick})
        if tick % 4 == 0:
            for worker in range(WORKERS):
                seen = {"storage": 18, "other": 1, "running": 9}
                yield Sample(t, "blocked", {"pid": FIRST_WORKER + worker, **seen})


RATES = {
    "cpu_busy_s": 9.0, "cpu_idle_s": 6.0, "cpu_iowait_s": 1.0, "cpu_steal_s": 0.0, "job_cpu_s": 8.0,
    "job_user_s": 7.0, "job_system_s": 1.0, "disk_read_bytes": 160e6, "disk_busy_s": 0.9, "disk_queue_s": 9.0,
    "disk_reads": 900.0, "job_read_bytes": 158e6, "job_rchar_bytes": 160e6, "job_write_bytes": 1e5,
    "pressure_cpu_some_s": 0.2, "pressure_io_some_s": 0.6, "pressure_memory_some_s": 0.01,
    "pressure_io_full_s": 0.3, "swap_in_bytes": 0.0, "swap_out_bytes": 0.0, "job_block_delay_s": 9.0,
}  # fmt: skip


def remains(folder: Path, course: Course) -> Remains:
    """The whole of what is left, with py-spy's stacks and window."""
    end_s = (course.got[-1] - ORIGIN) * 1e-9 + 5
    run = Run(["python", "train.py"], "train.py", "/home/ann", "2026-01-01T00:00:00+00:00", end_s, 0)
    machine = Machine("box", "6.1", "Xeon", 16, 16.0, 16, memory_bytes=1 << 36)
    frames = ["main (/home/ann/train.py:41)", "Photos.__getitem__ (/home/ann/data.py:12)"]
    stacks = [
        Stack(FIRST_WORKER + worker, "worker", "", [*frames, f"decode (/home/ann/image.py:{line})"], 9 + line)
        for worker in range(WORKERS)
        for line in range(6)
    ]
    windows = [InstrumentWindow("py-spy", 20.0, 24.0)]
    return Remains(folder, run, machine, ORIGIN, list(samples(end_s)), stacks, windows)
