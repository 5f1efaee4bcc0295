"""Decoy: each sample only waits, neither for CPU nor for storage. Cure: six workers."""

import time

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Throttled(Dataset[tuple[torch.Tensor, int]]):
    """Records behind a client that sleeps 3 ms before each request."""

    def __init__(self) -> None:
        self.rows = torch.randn(1600, 64)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.003)
        return self.rows[index] + 0.1 * torch.randn(64), index % 10


def main() -> None:
    given = options(__doc__, steps=260, step_s=0.030)
    book = Ledger(given.steps, given.truth)
    workers = (given.workers or 6) if given.cured else 0
    loader = DataLoader(
        Throttled(), batch_size=8, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.004)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
