"""Healthy: gradients of eight slices of a tensor add up before each step of the optimizer."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch import nn
from torch.nn import functional

PARTS, BATCH = 8, 16


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=480, step_s=0.0150, threads=None)
    book = Ledger(given.steps, given.truth)
    pictures, labels = torch.randn(1600, 3, 48, 48), torch.randint(0, 10, (1600,))
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3),
        nn.ReLU(),
        nn.Conv2d(24, 32, 3, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 22 * 22, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in book.epochs():
        for part in range(given.steps):
            with book.waiting():
                rows = slice(part % 100 * BATCH, part % 100 * BATCH + BATCH)
                x, y = pictures[rows], labels[rows]
            loss = functional.cross_entropy(model(x), y)
            (loss / PARTS).backward()
            if part % PARTS == PARTS - 1:
                optimizer.step()
                optimizer.zero_grad()
            book.note(loss)


if __name__ == "__main__":
    main()
