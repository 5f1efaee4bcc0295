"""Sick: two workers each read the whole stream, so every sample comes twice. Cure: each reads its half."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROWS = 1600


class Stream(IterableDataset[tuple[torch.Tensor, int]]):
    """Rows one after the other, 1 ms of CPU each."""

    def __init__(self, sharded: bool) -> None:
        self.rows = torch.randn(ROWS, 64)
        self.sharded = sharded

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        info = get_worker_info()
        places: Iterator[int] = iter(range(ROWS))
        if self.sharded and info is not None:
            places = itertools.islice(places, info.id, None, info.num_workers)
        for place in places:
            burn(0.001)
            yield self.rows[place], place % 10


def main() -> None:
    given = options(__doc__, steps=600, step_s=0.0095)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Stream(given.cured), batch_size=16, num_workers=2, persistent_workers=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.004)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
