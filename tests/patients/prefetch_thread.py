"""Decoy: a thread that runs ahead of training waits for data all the time; the training loop does not."""

import queue
import threading
import time
from collections.abc import Iterable, Iterator

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

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


class Throttled(Dataset[tuple[torch.Tensor, int]]):
    """Records behind a client that sleeps 1.6 ms before each request."""

    def __init__(self) -> None:
        self.rows = torch.randn(3200, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.0016)
        return self.rows[index], index % 10


def main() -> None:
    given = options(__doc__, steps=260, step_s=0.031)
    book = Ledger(given.steps, given.truth)
    loader = Ahead(DataLoader(Throttled(), batch_size=8, shuffle=True))
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.030)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
