"""Sick: the sampler walks through all weights for each index it draws. Cure: one draw for the epoch."""

import random
from collections.abc import Iterator

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Sampler, TensorDataset

ROWS, DRAWN = 4000, 1600


class Weighted(Sampler[int]):
    """Rare rows come more often: a running sum in Python for each draw, or all draws at once."""

    def __init__(self, at_once: bool) -> None:
        self.weights = [1.0 + (row % 7) for row in range(ROWS)]
        self.at_once = at_once

    def __len__(self) -> int:
        return DRAWN

    def __iter__(self) -> Iterator[int]:
        if self.at_once:
            drawn: list[int] = torch.multinomial(torch.tensor(self.weights), DRAWN, replacement=True).tolist()
            return iter(drawn)
        return (self.draw() for _ in range(DRAWN))

    def draw(self) -> int:
        """One row, by the running sum of the weights."""
        left = random.random() * sum(self.weights)
        for row, weight in enumerate(self.weights):
            left -= weight
            if left <= 0:
                return row
        return ROWS - 1


def main() -> None:
    given = options(__doc__, steps=500, step_s=0.0125)
    random.seed(0)
    book = Ledger(given.steps, given.truth)
    rows = TensorDataset(torch.randn(ROWS, 64), torch.arange(ROWS) % 10)
    loader = DataLoader(
        rows, batch_size=64, sampler=Weighted(given.cured), num_workers=1, persistent_workers=True
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.005)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
