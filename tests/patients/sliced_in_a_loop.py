"""Sick: a recurrence takes slice after slice, each with a gradient of the whole. Cure: unbind once."""

from __future__ import annotations

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

LENGTH, WIDTH = 192, 96


class Recurrence(torch.nn.Module):
    """A gated mean of what came before."""

    def __init__(self, cured: bool) -> None:
        super().__init__()
        self.cured = cured
        self.gate, self.value = torch.nn.Linear(16, WIDTH), torch.nn.Linear(16, WIDTH)
        self.head = torch.nn.Linear(WIDTH, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gates, values = torch.sigmoid(self.gate(x)), self.value(x)
        if self.cured:
            pairs = zip(gates.unbind(1), values.unbind(1), strict=True)
        else:
            pairs = ((gates[:, place], values[:, place]) for place in range(LENGTH))
        state = torch.zeros(len(x), WIDTH)
        for gate, value in pairs:
            state = state + gate * (value - state)
        return self.head(state)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=120, step_s=0.06, threads=None)
    book = Ledger(given.steps, given.truth)
    data = TensorDataset(torch.randn(2048, LENGTH, 16), torch.randint(0, 4, (2048,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = Recurrence(given.cured)
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
