"""Seeded synthetic runs: profiles whose cause is known because it was put there."""

from __future__ import annotations

import random

from bottleneck_doctor.model.profile import (
    Blocked,
    Epochs,
    FetchTable,
    Loader,
    Location,
    Loop,
    Machine,
    Operation,
    Process,
    Profile,
    Run,
    Series,
    StepTable,
)


def run_of(
    workers: int = 0,
    cpu: float = 0.0,
    collate: float = 0.0,
    storage: float = 0.0,
    network: float = 0.0,
    sleep: float = 0.0,
    compute: float = 0.0,
    idle: float = 0.0,
    checkpoint: float = 0.0,
    logging: float = 0.0,
    start: float = 0.0,
    steps: int = 300,
    epochs: int = 2,
    cores: float = 2.0,
    foreign: float = 0.0,
    samples: int = 32,
    noise: float = 0.03,
    step: float | None = None,
) -> Profile:
    """A run of a plain loop. Seconds per batch; ``step`` is the measured step, else the ideal overlap."""
    chance = random.Random(7)
    fetch = cpu + collate + storage + network + sleep
    turn = compute + idle + checkpoint + logging
    overlap = max(turn, fetch / max(1, workers), (cpu + collate + compute) / cores)
    wall = step if step is not None else (fetch + turn if workers == 0 else overlap)
    loader = Loader(
        "1:1", "dataloader", 1, "Photos", dataset_length=10_000, batch_size=samples, num_workers=workers,
        prefetch_factor=2 if workers else None, location=Location("train.py", 7),
    )  # fmt: skip
    table, fetches = StepTable(), FetchTable("1:1", seen=steps)
    length, t = steps // epochs, 3.0
    for place in range(steps):
        jitter = 1 + chance.uniform(-noise, noise)
        extra = start if place % length == 0 and place else 0.0
        took = wall * jitter + extra
        t += took
        own = (compute + idle) * jitter
        for name, value in {
            "t": t, "steps": 1, "epoch": place // length, "wall_s": took,
            "wait_s": max(0.0, took - own - checkpoint - logging), "cpu_s": compute * jitter, "runq_s": 0.0,
            "wait_runq_s": 0.0,
            "wait_cpu_s": cpu + collate if workers == 0 else 2e-4,
            "process_cpu_s": compute * jitter + (cpu + collate if workers == 0 else 2e-4),
            "backward_s": 0.4 * own, "optimizer_s": 0.0, "checkpoint_s": checkpoint, "logging_s": logging,
            "collect_s": 0.0, "copy_s": 0.0, "ready": None, "set_aside": "",
        }.items():  # fmt: skip
            getattr(table, name).append(value)
        for name, value in {
            "t": t - took, "worker": place % workers if workers else -1, "wall_s": fetch * jitter,
            "cpu_s": (cpu + collate) * jitter, "other_cpu_s": 0.0, "system_s": 0.0, "runq_s": 0.0,
            "storage_bytes": int(storage * 1e8), "read_bytes": int(storage * 1e8), "reads": 1, "major_faults": 0,
            "collate_s": collate, "collate_cpu_s": collate, "decode_s": 0.0, "opens": 0, "samples": samples,
        }.items():  # fmt: skip
            getattr(fetches, name).append(value)
    begins = [3.0 + epoch * length * wall for epoch in range(epochs)]
    loop = Loop(
        "1:1", 1, 0, "train", steps, sum(table.wall_s), sum(table.wait_s),
        Epochs(begins, [start / 2] * epochs, [start / 2 + fetch] * epochs, [length] * epochs), table, steps, steps,
    )  # fmt: skip
    return Profile(
        run=Run(["python", "train.py"], "train.py", "/", "2026-01-01T00:00:00+00:00", t + 1, 0),
        machine=Machine("box", "6", "cpu", int(cores), cores),
        processes=[Process(1, 0, "trainer", 0.0, torch="2.13.0", torch_threads=1, device="cpu")],
        loaders=[loader],
        loops=[loop],
        fetches=[fetches],
        blocked=[Blocked("1:1", [3.0, t], [_seen(storage, network, sleep)] * 2)],
        operations=_operations(checkpoint, logging, steps),
        series=_series(t, cores, foreign),
    )


def _seen(storage: float, network: float, sleep: float) -> dict[str, int]:
    counts = {"storage": storage, "network": network, "sleep": sleep}
    return {name: max(1, round(1e4 * value)) for name, value in counts.items() if value}


def _operations(checkpoint: float, logging: float, steps: int) -> list[Operation]:
    found = []
    for kind, each in (("checkpoint", checkpoint), ("logging", logging)):
        if each:
            total = each * steps
            found.append(
                Operation(kind, 1, 0, "save", steps, total, 0.3 * total, each, Location("train.py", 9))
            )
    return found


def _series(end: float, cores: float, foreign: float) -> Series:
    times = [0.5 * place for place in range(int(2 * end) + 2)]
    job = 0.5
    return Series(
        times,
        {
            "cpu_busy_s": [(job + foreign) * t for t in times],
            "cpu_idle_s": [max(0.0, cores - job - foreign) * t for t in times],
            "cpu_iowait_s": [0.0 for _ in times],
            "job_cpu_s": [job * t for t in times],
        },
    )
