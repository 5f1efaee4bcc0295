"""Sick: convolutions work on pixels whose channels lie apart in memory. Cure: channels last."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def block(inside: int, outside: int) -> nn.Sequential:
    """Convolution, normalisation, activation."""
    return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=140, step_s=0.0520)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Sequential(
        block(3, 32), block(32, 48), nn.MaxPool2d(2), block(48, 64), block(64, 64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    if given.cured:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            if given.cured:
                x = x.to(memory_format=torch.channels_last)
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
