"""Sick: a generator reads shards that memory does not keep. Cure: they are read into memory once."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch
from ledger import Ledger
from props import options, random_file
from torch.nn import functional

RECORD, SHARDS, PER_SHARD, BATCH = 256 << 10, 4, 240, 24


def records(shards: list[Path]) -> Iterator[bytes]:
    """All records, shard by shard; what was read is dropped, as where memory is full of something else."""
    for shard in shards:
        with shard.open("rb", buffering=0) as file:
            for _ in range(PER_SHARD):
                yield file.read(RECORD)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def batches(source: list[Path] | list[bytes]) -> Iterator[torch.Tensor]:
    """The beginnings of some records, as numbers, from files or from memory."""
    while True:
        rows = []
        for record in records(source) if isinstance(source[0], Path) else source:
            rows.append(torch.frombuffer(bytearray(record[:512]), dtype=torch.uint8))
            if len(rows) == BATCH:
                yield torch.stack(rows).float().div_(255)
                rows = []


def main() -> None:
    given = options(__doc__, steps=200, step_s=0.0370, threads=None)
    book = Ledger(given.steps, given.truth)
    shards = [random_file(given.data / f"shard-{number}.bin", RECORD * PER_SHARD) for number in range(SHARDS)]
    source = batches(list(records(shards)) if given.cured else shards)
    model = torch.nn.Sequential(torch.nn.Linear(512, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x in book.loop(source):
            optimizer.zero_grad()
            loss = functional.mse_loss(model(x), x.mean(dim=1, keepdim=True))
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
