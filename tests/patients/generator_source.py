"""Sick: a generator computes batches while the accelerator idles. Cure: a thread runs ahead."""

import queue
import threading
from collections.abc import Iterable, Iterator

import torch
from ledger import Ledger
from props import options, simulated_accelerator
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


class Ranking:
    """A ranking model of 130,000 items, which torch sorts in one go, without the interpreter lock."""

    def __iter__(self) -> Iterator[Batch]:
        state = torch.Generator().manual_seed(1)
        for _ in range(100):
            ranked = torch.randn(130_000, generator=state).sort().values
            x = ranked[torch.randint(0, 130_000, (8, 64), generator=state)]
            yield x, x[:, :10].argmax(dim=1)


def main() -> None:
    given = options(__doc__, steps=340, step_s=0.0245)
    book = Ledger(given.steps, given.truth)
    batches = Ahead(Ranking()) if given.cured else Ranking()
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
