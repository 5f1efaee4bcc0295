"""Sick: pruned weights have decayed to 1e-39, and compute slowly. Cure: such numbers count as zero."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch.utils.data import DataLoader, TensorDataset

WIDTH, BATCH = 768, 4


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=450, step_s=0.0150)
    book = Ledger(given.steps, given.truth)
    torch.set_flush_denormal(given.cured)
    data = TensorDataset(torch.randn(3200, WIDTH), torch.randn(3200, WIDTH))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    kept = (torch.rand(WIDTH, WIDTH) < 0.5).float()
    weight = torch.nn.Parameter(torch.where(kept > 0, torch.randn(WIDTH, WIDTH) / WIDTH**0.5, 1e-39))
    optimizer = torch.optim.SGD([weight], lr=0.01, weight_decay=1e-4)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = (x @ (weight * kept) - y).square().mean() + 1e-3 * (weight * weight).mean()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
