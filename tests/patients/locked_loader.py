"""Decoy: the workers take turns at one lock, so that another worker would bring nothing."""

import multiprocessing
import time

import torch
from ledger import Ledger
from props import options, simulated_accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class OneAtATime(Dataset[tuple[torch.Tensor, int]]):
    """Records behind a licence server that serves one process at a time, 3 ms each."""

    def __init__(self) -> None:
        self.rows = torch.randn(1600, 64)
        self.cost = multiprocessing.Lock()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.cost:
            time.sleep(0.003)
        return self.rows[index] + 0.1 * torch.randn(64), index % 10


def main() -> None:
    given = options(__doc__, steps=320, step_s=0.025)
    book = Ledger(given.steps, given.truth)
    loader = DataLoader(OneAtATime(), batch_size=8, shuffle=True, num_workers=2, persistent_workers=True)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in book.epochs():
        for x, y in book.loop(loader):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(x), y)
            simulated_accelerator(0.003)
            loss.backward()
            optimizer.step()
            book.note(loss)


if __name__ == "__main__":
    main()
