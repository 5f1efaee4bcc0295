"""Sick: a generator waits for its turn at one connection, 25 times a second. Cure: eight of them."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import torch
from ledger import Ledger
from props import options
from torch.nn import functional

Batch = tuple[torch.Tensor, torch.Tensor]


class Connection:
    """Whoever asks before its turn is held until then."""

    def __init__(self) -> None:
        self.cost_s = time.monotonic()

    def draw(self, seed: int) -> list[list[float]]:
        """Thirty-two readings."""
        time.sleep(max(0.0, self.cost_s - time.monotonic()))
        self.cost_s = time.monotonic() + 0.040
        state = random.Random(seed)
        return [[state.random() for _ in range(16)] for _ in range(32)]


def readings(connections: list[Connection]) -> Iterator[Batch]:
    """Batches without end, from each connection in turn."""
    number = 0
    while True:
        rows = torch.tensor(connections[number % len(connections)].draw(number))
        number += 1
        yield rows, rows.mean(dim=1, keepdim=True)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=170, step_s=0.041, threads=None)
    book = Ledger(given.steps, given.truth)
    batches = readings([Connection() for _ in range(8 if given.cured else 1)])
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in book.epochs():
        for x, y in book.loop(batches):
            loss = functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
