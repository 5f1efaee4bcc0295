"""Seeded synthetic runs: profiles whose cause is known because it was put there."""

import random
from dataclasses import dataclass, fields
from typing import Any

from bottleneck_doctor.model.code import Location
from bottleneck_doctor.model.instruments import Operation, Series
from bottleneck_doctor.model.loops import Blocked, Epochs, FetchTable, Loader, Loop, LoopBody, StepTable
from bottleneck_doctor.model.profile import Profile
from bottleneck_doctor.model.run import Machine, Process, Run


@dataclass(frozen=True)
class Traits:
    """What a synthetic run is like: seconds per batch; ``step`` is the measured step, if not ideal."""

    workers: int = 0
    cpu: float = 0.0
    storage: float = 0.0
    sleep: float = 0.0
    compute: float = 0.0
    idle: float = 0.0
    checkpoint: float = 0.0
    start: float = 0.0
    steps: int = 300
    epochs: int = 2
    cores: float = 2.0
    noise: float = 0.03
    step: float | None = None

    @property
    def fetch(self) -> float:
        """What one batch costs its maker."""
        return self.cpu + self.storage + self.sleep

    @property
    def wall(self) -> float:
        """Seconds per step."""
        if self.step is not None:
            return self.step
        cost = self.compute + self.idle + self.checkpoint
        if self.workers == 0:
            return self.fetch + cost
        return max(cost, self.fetch / self.workers, (self.cpu + self.compute) / self.cores)


def run_of(**given: Any) -> Profile:
    """A run of a plain loop with these traits."""
    traits = Traits(**given)
    length = traits.steps // traits.epochs
    loader = Loader(
        "1:1", "dataloader", 1, "Photos", dataset_length=10_000, batch_size=32,
        num_workers=traits.workers, prefetch_factor=2 if traits.workers else None,
        location=Location("train.py", 7),
    )  # fmt: skip
    table, fetches = _tables(traits, length)
    begins = [3.0 + epoch * length * traits.wall for epoch in range(traits.epochs)]
    firsts = [traits.start / 2 + traits.fetch] * traits.epochs
    epochs = Epochs(begins, [traits.start / 2] * traits.epochs, firsts, [length] * traits.epochs)
    steps, waited = traits.steps, sum(table.wait_s)
    loop = Loop("1:1", 1, 0, "train", steps, sum(table.wall_s), waited, epochs, table, steps, steps)
    return Profile(
        run=Run(["python", "train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", table.t[-1] + 1, 0),
        machine=Machine("box", "6", "cpu", int(traits.cores), traits.cores),
        processes=[Process(1, 0, "trainer", 0.0, torch="2.13.0", torch_threads=1, device="cpu")],
        loaders=[loader],
        loops=[loop],
        fetches=[fetches],
        blocked=[Blocked("1:1", [3.0, table.t[-1]], [_seen(traits.storage, traits.sleep)] * 2)],
        operations=_operations(traits.checkpoint, traits.steps),
        series=_series(table.t[-1], traits.cores),
    )


def _tables(traits: Traits, length: int) -> tuple[StepTable, FetchTable]:
    chance = random.Random(7)
    table, fetches = StepTable(), FetchTable("1:1", seen=traits.steps)
    t = 3.0
    for place in range(traits.steps):
        jitter = 1 + chance.uniform(-traits.noise, traits.noise)
        took = traits.wall * jitter + (traits.start if place % length == 0 and place else 0.0)
        t += took
        _append(table, _step_row(traits, place // length, jitter, took, t))
        _append(fetches, _fetch_row(traits, place, jitter, t - took))
    return table, fetches


def _append(table: StepTable | FetchTable, row: dict[str, Any]) -> None:
    """What a row does not speak of was not measured."""
    for item in fields(table):
        column = getattr(table, item.name)
        if isinstance(column, list):
            column.append(row.get(item.name))


def _step_row(traits: Traits, epoch: int, jitter: float, took: float, t: float) -> dict[str, Any]:
    own = (traits.compute + traits.idle) * jitter
    inside = traits.cpu if traits.workers == 0 else 2e-4
    return {
        "t": t, "steps": 1, "epoch": epoch, "wall_s": took, "cpu_s": traits.compute * jitter, "runq_s": 0.0,
        "wait_s": max(0.0, took - own - traits.checkpoint), "wait_runq_s": 0.0,
        "wait_cpu_s": inside, "process_cpu_s": traits.compute * jitter + inside, "backward_s": 0.4 * own,
        "optimizer_s": 0.0, "checkpoint_s": traits.checkpoint, "logging_s": 0.0, "collect_s": 0.0,
        "copy_s": 0.0, "ready": None, "set_aside": "", "exchange_s": 0.0,
    }  # fmt: skip


def _fetch_row(traits: Traits, place: int, jitter: float, t: float) -> dict[str, Any]:
    stored = int(traits.storage * 1e8)
    return {
        "t": t, "worker": place % traits.workers if traits.workers else -1, "wall_s": traits.fetch * jitter,
        "cpu_s": traits.cpu * jitter, "other_cpu_s": 0.0, "system_s": 0.0, "runq_s": 0.0,
        "storage_bytes": stored, "read_bytes": stored, "reads": 1, "major_faults": 0,
        "collate_s": 0.0, "collate_cpu_s": 0.0, "decode_s": 0.0, "opens": 0, "samples": 32,
    }  # fmt: skip


def _seen(storage: float, sleep: float) -> dict[str, int]:
    counts = {"storage": storage, "sleep": sleep}
    return {name: max(1, round(1e4 * value)) for name, value in counts.items() if value}


def _operations(each: float, steps: int) -> list[Operation]:
    """A checkpoint of so many seconds at every step."""
    total, place = each * steps, Location("train.py", 9)
    return [Operation("checkpoint", 1, 0, "save", steps, total, 0.3 * total, each, place)] if each else []


def _series(end: float, cores: float) -> Series:
    times = [0.5 * place for place in range(int(2 * end) + 2)]
    job = 0.5
    return Series(
        times,
        {
            "cpu_busy_s": [job * t for t in times],
            "cpu_idle_s": [(cores - job) * t for t in times],
            "cpu_iowait_s": [0.0 for _ in times],
            "job_cpu_s": [job * t for t in times],
        },
    )


def own_loop(count: int, body: LoopBody | None = None, **each: float | None) -> Loop:
    """A loop of a process without a loader: rows of one step, with these values in each of them."""
    table = StepTable(**{item.name: [each.get(item.name, 0.0)] * count for item in fields(StepTable)})  # type: ignore[arg-type]
    wall_s = each.get("wall_s") or 0.0
    table.steps[:], table.set_aside[:] = [1] * count, [""] * count
    table.t[:] = [3 + wall_s * (place + 1) for place in range(count)]
    return Loop("", 1, 0, "train", count, sum(table.wall_s), 0.0, Epochs(), table, backwards=count, body=body)
