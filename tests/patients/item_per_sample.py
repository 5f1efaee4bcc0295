"""Sick: right answers are counted sample by sample, each by ``item()``. Cure: one operator counts."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch.nn import functional

ROWS, BATCH, CLASSES = 25_600, 256, 20


def one_by_one(logits: torch.Tensor, y: torch.Tensor) -> tuple[int, float]:
    """How many were right, and how sure the model was of the truth."""
    right, sure = 0, 0.0
    for scores, label in zip(logits, y, strict=True):
        if scores.argmax().item() == label.item():
            right += 1
        sure += scores[label.item()].item()
    return right, sure


def at_once(logits: torch.Tensor, y: torch.Tensor) -> tuple[int, float]:
    """The same numbers."""
    return int((logits.argmax(dim=1) == y).sum()), logits.gather(1, y[:, None]).sum().item()


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=4000, step_s=0.0012, threads=None)
    book = Ledger(given.steps, given.truth)
    rows, labels = torch.randn(ROWS, 64), torch.randint(0, CLASSES, (ROWS,))
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    measure = at_once if given.cured else one_by_one
    right, sure = 0, 0.0
    for _ in book.epochs():
        for step in range(given.steps):
            with book.waiting():
                start = step * BATCH % ROWS
                x, y = rows[start : start + BATCH], labels[start : start + BATCH]
            optimizer.zero_grad()
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            more, surer = measure(logits.detach(), y)
            right, sure = right + more, sure + surer
            book.note(loss)


if __name__ == "__main__":
    main()
