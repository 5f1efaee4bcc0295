"""Sick: a Python thread beside the loop holds the interpreter's lock. Cure: no such thread."""

import threading

import torch
from ledger import Ledger
from props import options
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


class Statistics(threading.Thread):
    """Keeps a running count of something, all the time."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.counts = [0] * 100
        self.over = False

    def run(self) -> None:
        """Count until told to stop."""
        place = 0
        while not self.over:
            place = (place * 7 + 3) % 100
            self.counts[place] += 1


def main() -> None:
    given = options(__doc__, steps=200, step_s=0.030)
    book = Ledger(given.steps, given.truth)
    statistics = Statistics()
    if not given.cured:
        statistics.start()
    rows = TensorDataset(torch.randn(6400, 256), torch.arange(6400) % 10)
    loader = DataLoader(rows, batch_size=64, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(256, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            book.note(loss)
    statistics.over = True


if __name__ == "__main__":
    main()
