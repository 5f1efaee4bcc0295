"""Decoy: a healthy training beside strangers who keep the disk busy; it needs nothing from the disk."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """Rows in memory that cost a little CPU each."""

    def __init__(self) -> None:
        self.rows = torch.randn(4096, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        burn(0.0001)
        return self.rows[index] + 0.1 * torch.randn(64), index % 10


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=75, step_s=0.081)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(Rows(), batch_size=16, shuffle=True, num_workers=1, persistent_workers=True)
    model = torch.nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.08)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
