"""Healthy: LBFGS calls a closure over all rows, which are two tensors."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch.nn import functional


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=90, step_s=0.0700, threads=None)
    book = Ledger(given.steps, given.truth)
    x = torch.linspace(-1, 1, 4000)[:, None] * torch.arange(1, 9)
    y = torch.sin(3 * x).sum(dim=1, keepdim=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 256),
        torch.nn.Tanh(),
        torch.nn.Linear(256, 256),
        torch.nn.Tanh(),
        torch.nn.Linear(256, 1),
    )
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4, history_size=8)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in book.epochs():
        for _ in book.loop(range(given.steps)):
            book.note(optimizer.step(closure))


if __name__ == "__main__":
    main()
