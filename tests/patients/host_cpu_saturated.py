"""Sick: four workers share two cores for 20 ms of features a batch. Cure: the features are computed once."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Features(Dataset[tuple[torch.Tensor, int]]):
    """Features that cost 2.5 ms of CPU each; the same index always gives the same ones."""

    def __init__(self, ready: bool) -> None:
        self.rows = torch.randn(1280, 64)
        self.ready = ready

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if not self.ready:
            burn(0.0025)
        return self.rows[index], index % 10


def main() -> None:
    given = options(__doc__, steps=800, step_s=0.0105)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(
        Features(ready=given.cured), batch_size=8, shuffle=True, num_workers=4, persistent_workers=True
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.002)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
