"""Sick: a recurrent model takes turns with rows that its own process scales. Cure: once, and slices."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Digits(Dataset[tuple[torch.Tensor, int]]):
    """Pictures as rows of pixels, scaled one by one as most transforms do it."""

    def __init__(self) -> None:
        self.pixels = torch.randint(0, 256, (6000, 28, 28), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return (self.pixels[index].float().div(255) - 0.1307) / 0.3081, index % 10

    def in_one_go(self) -> TensorDataset:
        """The same, computed before training."""
        return TensorDataset((self.pixels.float().div(255) - 0.1307) / 0.3081, torch.arange(6000) % 10)


class Reader(nn.Module):
    """Reads a picture row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.LSTM(28, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rows(x)[0][:, -1])


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=900, step_s=0.0062, threads=None)
    book = Ledger(given.steps, given.truth)
    digits = Digits()
    model = Reader()
    optimizer = torch.optim.Adadelta(model.parameters(), lr=0.1)
    for _ in book.epochs():
        loader = DataLoader(digits, batch_size=128, shuffle=True)
        if given.cured:
            order = torch.randperm(len(digits)).split(128)
            loader = DataLoader(digits.in_one_go(), sampler=[one.tolist() for one in order], batch_size=None)
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
