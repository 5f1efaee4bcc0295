"""Sick: every step looks through all losses so far, which are more and more. Cure: it looks at the newest."""

from __future__ import annotations

from collections import deque

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=700, step_s=0.0090)
    book = Ledger(given.steps, given.truth)
    batches = [(torch.randn(256, 64), torch.randint(0, 10, (256,))) for _ in range(100)]
    loader = DataLoader(batches, batch_size=None)
    model = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history: deque[float] = deque(maxlen=1000 if given.cured else None)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            losses = functional.cross_entropy(model(x), y, reduction="none")
            loss = losses.mean()
            loss.backward()
            optimizer.step()
            history.extend(losses.tolist())
            limit = loss.item()
            sum(1 for old in history if old > limit)
            book.note(loss)


if __name__ == "__main__":
    main()
