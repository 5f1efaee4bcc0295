"""Sick: a confusion matrix is counted in Python, label by label, each step. Cure: one operator counts."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

CLASSES, BATCH = 16, 256


def count_in_python(logits: torch.Tensor, target: torch.Tensor) -> list[list[int]]:
    """counts[true][ranked]: which classes were ranked above the true one."""
    counts = [[0] * CLASSES for _ in range(CLASSES)]
    for scores, true in zip(logits.tolist(), target.tolist(), strict=True):
        for place, score in enumerate(scores):
            if score > scores[true]:
                counts[true][place] += 1
            else:
                counts[true][place] += 0
    return counts


def count_in_one_go(logits: torch.Tensor, target: torch.Tensor) -> list[list[int]]:
    """The same counts."""
    above = (logits > logits.gather(1, target[:, None])).long()
    return torch.zeros(CLASSES, CLASSES, dtype=torch.long).index_add_(0, target, above).tolist()


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=1100, step_s=0.0060)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(12_800, 256), torch.randint(0, CLASSES, (12_800,)))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    count = count_in_one_go if given.cured else count_in_python
    mistakes = 0
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            mistakes += sum(map(sum, count(logits.detach(), y)))
            book.note(loss)


if __name__ == "__main__":
    main()
