"""Sick: a thread fills a queue from shards that memory does not keep. Cure: they are read once, before."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file
from torch.nn import functional

RECORD, SHARDS, PER_SHARD, BATCH = 128 << 10, 4, 480, 48


class Prefetcher(threading.Thread):
    """Works ahead of the loop, as far as the queue lets it."""

    def __init__(self, records: Iterator[bytes]) -> None:
        super().__init__(daemon=True)
        self.records, self.ready = records, queue.Queue[torch.Tensor](4)
        self.start()

    def run(self) -> None:
        while True:
            rows = [bytearray(next(self.records)[:512]) for _ in range(BATCH)]
            self.ready.put(torch.stack([torch.frombuffer(row, dtype=torch.uint8) for row in rows]))

    def __iter__(self) -> Iterator[torch.Tensor]:
        return self

    def __next__(self) -> torch.Tensor:
        return self.ready.get().float().div_(255)


def from_disk(shards: list[Path]) -> Iterator[bytes]:
    """All records again and again; what was read is dropped, as where memory is full of something else."""
    while True:
        for shard in shards:
            with shard.open("rb", buffering=0) as file:
                for _ in range(PER_SHARD):
                    yield file.read(RECORD)
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def from_memory(shards: list[Path]) -> Iterator[bytes]:
    """The same, read once."""
    kept = [shard.read_bytes() for shard in shards]
    while True:
        for shard in kept:
            for place in range(PER_SHARD):
                yield shard[place * RECORD : (place + 1) * RECORD]


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=500, step_s=0.0130, threads=None)
    book = Ledger(given.steps, given.truth)
    shards = [random_file(given.data / f"shard-{number}.bin", RECORD * PER_SHARD) for number in range(SHARDS)]
    source = Prefetcher(from_memory(shards) if given.cured else from_disk(shards))
    model = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x in book.loop(source):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), x.mean(dim=1, keepdim=True))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
