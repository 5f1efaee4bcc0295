"""Healthy loader, heavy model: the CPU computes all the time, and no loader can change that."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=300, step_s=0.0270, threads=None)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(6400, 256), torch.randint(0, 10, (6400,)))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 1536),
        torch.nn.ReLU(),
        torch.nn.Linear(1536, 1536),
        torch.nn.ReLU(),
        torch.nn.Linear(1536, 1536),
        torch.nn.ReLU(),
        torch.nn.Linear(1536, 10),
    )
    torch.set_float32_matmul_precision("medium")  # or a processor with bfloat16 units is not at its best
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
