"""Looks like stalls at a regular distance: batches are short and long by turns. Cure: two workers."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset[tuple[torch.Tensor, int]]):
    """Documents that cost 0.3 ms or, every other batch of eight, 2 ms of CPU each."""

    def __init__(self) -> None:
        self.rows = torch.randn(1600, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        burn(0.002 if index // 8 % 2 else 0.0003)
        return self.rows[index], index % 10


def main() -> None:
    given = options(__doc__, steps=500, step_s=0.0150)
    book = Ledger(given.steps, given.truth)
    workers = 2 if given.cured else 0
    loader = DataLoader(Documents(), batch_size=8, num_workers=workers, persistent_workers=workers > 0)
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.005)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
