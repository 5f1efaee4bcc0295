"""Sick: batches come from a generator that computes them while the accelerator idles. Cure: a thread runs ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator

import torch
from ledger import Ledger
from props import burn, options, simulated_accelerator
from torch.nn import functional

Batch = tuple[torch.Tensor, torch.Tensor]


class Ahead:
    """Makes batches in a background thread; the loop waits at a short queue."""

    def __init__(self, batches: Iterable[Batch], depth: int = 4) -> None:
        self.batches, self.depth = batches, depth

    def __iter__(self) -> Iterator[Batch]:
        ready: queue.Queue[Batch | None] = queue.Queue(self.depth)
        threading.Thread(target=self.fill, args=(ready,), daemon=True).start()
        while (batch := ready.get()) is not None:
            yield batch

    def fill(self, ready: queue.Queue[Batch | None]) -> None:
        """Run through one epoch."""
        for batch in self.batches:
            ready.put(batch)
        ready.put(None)


class Simulation:
    """A physics simulation that needs 10 ms of CPU for a batch."""

    def __iter__(self) -> Iterator[Batch]:
        state = torch.Generator().manual_seed(1)
        for _ in range(100):
            burn(0.010)
            x = torch.randn(8, 64, generator=state)
            yield x, x[:, :10].argmax(dim=1)


def main() -> None:
    """Train for a while."""
    given = options(__doc__, steps=400, step_s=0.021)
    book = Ledger(given.steps, given.truth)
    batches = Ahead(Simulation()) if given.cured else Simulation()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(batches):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.009)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
