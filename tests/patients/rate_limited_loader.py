"""Sick: the training process waits for one request a batch, with torch's own threads. Cure: workers."""

from __future__ import annotations

import time

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Store(Dataset[tuple[torch.Tensor, int]]):
    """Records behind a service that answers 8 ms after it was asked, however many are asked for."""

    def __init__(self) -> None:
        self.rows = torch.randn(6400, 256)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, indices: list[int]) -> list[tuple[torch.Tensor, int]]:
        time.sleep(0.008)
        return [(self.rows[index], index % 10) for index in indices]


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=550, step_s=0.0110, threads=None)
    book = Ledger(given.steps, given.truth)
    workers = (given.workers or 6) if given.cured else 0
    loader = DataLoader(
        Store(), batch_size=64, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
